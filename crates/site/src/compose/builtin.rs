//! The template of sites that have none of their own: readable on any screen, no script, nothing from elsewhere.

/// See the module.
pub(crate) const PAGE: &str = r#"<!doctype html>
<html lang="{{ page.lang }}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{ page.title }}{% if site.title and site.title != page.title %} – {{ site.title }}{% endif %}</title>
{% if page.description %}<meta name="description" content="{{ page.description }}">{% endif %}
{% for other in page.translations %}<link rel="alternate" hreflang="{{ other.lang }}" href="{{ other.url }}">{% endfor %}
<style>:root{color-scheme:light dark}body{font:17px/1.6 system-ui,sans-serif;max-width:44rem;margin:0 auto;padding:1rem}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1rem}img{max-width:100%;height:auto}
pre{overflow-x:auto}table{border-collapse:collapse}th,td{padding:.25rem .5rem;border:1px solid #8888}</style></head>
<body><header><nav><ul>{% for item in nav %}
<li><a href="{{ item.url }}"{% if item.url == page.url %} aria-current="page"{% endif %}>{{ item.title }}</a></li>{% endfor %}
</ul></nav></header><main>
{{ content }}</main>{% if page.translations %}<footer><p>{% for other in page.translations %}
<a href="{{ other.url }}" hreflang="{{ other.lang }}" lang="{{ other.lang }}">{{ other.title }}</a>{% endfor %}</p></footer>{% endif %}
</body></html>
"#;
