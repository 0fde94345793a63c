//! Templates and fragments (Jinja syntax), and what they see.
//!
//! A template sees `page`, `site`, `nav` (the pages of the page's language as a tree), `t` (words in that language), `data` and, if
//! it frames a page, `content`. `{{ "/x.css" | url }}` is an address in this site wherever it is published. Text is escaped.
//! An undefined name is a mistake, so a misspelt one is found when publishing.
//!
//! Bounds: steps and nesting of the engine, and the size of a page.

use super::pages::{Body, Page};
use super::{Part, Problem, Site, builtin, escape, part_of};
use crate::limits::{PAGE_BYTES_MAX, TEMPLATE_DEPTH_MAX, TEMPLATE_STEPS_MAX};
use bytes::Bytes;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The templates of a site, ready to render.
pub(crate) struct Templates<'a> {
    environment: Environment<'static>,
    /// Name to file.
    files: BTreeMap<String, String>,
    site: Value,
    data: Value,
    nav: HashMap<&'a str, Value>,
    words: HashMap<&'a str, Value>,
}

/// A page in the navigation.
#[derive(Serialize)]
struct Item<'a> {
    title: &'a str,
    url: &'a str,
    children: Vec<Item<'a>>,
}

/// A page as templates see it in a list.
#[derive(Serialize)]
struct Listed<'a> {
    title: &'a str,
    url: &'a str,
    lang: &'a str,
    description: Option<&'a str>,
    date: Option<&'a str>,
}

impl<'a> Listed<'a> {
    fn of(page: &'a Page) -> Self {
        let Page { title, url, lang, front, .. } = page;
        Self { title, url, lang, description: front.description.as_deref(), date: front.date.as_deref() }
    }
}

impl<'a> Templates<'a> {
    /// Reads all templates, with every mistake in them.
    pub(crate) fn new(texts: &BTreeMap<String, Bytes>, site: &'a Site<'a>) -> (Self, Vec<Problem>) {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_fuel(Some(TEMPLATE_STEPS_MAX));
        environment.set_recursion_limit(TEMPLATE_DEPTH_MAX);
        // Values in attributes and text alike; a template that makes something else than HTML says so itself.
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
        // The engine's own escaping writes slashes as references too, which makes addresses unreadable in the source.
        environment.set_formatter(|out, state, value| match value.as_str() {
            Some(text) if !value.is_safe() && state.auto_escape() == minijinja::AutoEscape::Html => {
                Ok(out.write_str(&escape::text(text))?)
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        let prefix = site.place.path.clone();
        environment.add_filter("url", move |path: String| format!("{prefix}{}", escape::path(&path)));
        let (files, problems) = add_all(&mut environment, texts);
        let shown: Vec<&Page> = site.pages.iter().filter(|page| !page.front.draft).collect();
        let mut dated: Vec<&Page> = shown.iter().copied().filter(|page| page.front.date.is_some()).collect();
        dated.sort_by(|a, b| b.front.date.cmp(&a.front.date).then_with(|| a.route.cmp(&b.route)));
        let listed = |pages: &[&'a Page]| pages.iter().map(|page| Listed::of(page)).collect::<Vec<_>>();
        let config = &site.config;
        let nav = shown.iter().map(|page| page.lang.as_str()).map(|lang| (lang, navigation(&shown, lang, config)));
        let words = config.translations.iter().map(|(lang, words)| (lang.as_str(), Value::from_serialize(words)));
        let templates = Self {
            files,
            site: context! {
                title => config.title, description => config.description, author => config.author, language => config.language,
                languages => config.languages, url => site.url, path => site.place.path,
                pages => Value::from_serialize(listed(&shown)), posts => Value::from_serialize(listed(&dated)),
            },
            data: Value::from_serialize(&config.data),
            nav: nav.collect(),
            words: words.collect(),
            environment,
        };
        (templates, problems)
    }

    /// Composes a page.
    pub(crate) fn render(&self, site: &Site<'_>, page: &Page) -> Result<String, Problem> {
        let seen = self.seen_by(site, page);
        let (content, default) = match &page.body {
            Body::Html(html) => (html.clone(), site.config.template.as_str()),
            Body::Template(text, lines) => {
                // So that lines are counted as in the file.
                let source = "\n".repeat(*lines) + text;
                let html = self.environment.render_named_str(&page.source, &source, context! { ..seen.clone() });
                let html = html.map_err(|error| self.problem(&page.source, &error))?;
                (html.trim_start_matches('\n').to_owned(), "")
            }
        };
        let frame = page.front.template.as_deref().unwrap_or(default);
        let html = if frame.is_empty() {
            content
        } else {
            let template = self.environment.get_template(frame).map_err(|_| {
                Problem::new(&page.source, None, format!("there is no template {frame} in _templates/"))
            })?;
            let content = context! { content => Value::from_safe_string(content) };
            template.render(context! { ..content, ..seen }).map_err(|error| self.problem(&page.source, &error))?
        };
        if html.len() > PAGE_BYTES_MAX {
            return Err(Problem::new(&page.source, None, format!("the page exceeds {} MiB", PAGE_BYTES_MAX >> 20)));
        }
        Ok(html)
    }

    fn seen_by(&self, site: &Site<'_>, page: &Page) -> Value {
        let translations: Vec<Listed<'_>> = site
            .pages
            .iter()
            .filter(|other| other.key == page.key && other.lang != page.lang && !other.front.draft)
            .map(Listed::of)
            .collect();
        let front = &page.front;
        let page_value = context! {
            title => page.title, url => page.url, lang => page.lang, description => front.description, date => front.date,
            source => page.source, translations => Value::from_serialize(translations),
        };
        let page_value = context! { ..page_value, ..Value::from_serialize(&front.extra) };
        context! {
            page => page_value, site => self.site, data => self.data,
            nav => self.nav.get(page.lang.as_str()).cloned().unwrap_or_default(),
            t => self.words.get(page.lang.as_str()).cloned().unwrap_or_else(|| Value::from_serialize(BTreeMap::<&str, &str>::new())),
        }
    }

    /// Where it really went wrong: in the fragment, not in what includes it.
    fn problem(&self, source: &str, error: &minijinja::Error) -> Problem {
        let mut deepest = error;
        while let Some(cause) = std::error::Error::source(deepest).and_then(|cause| cause.downcast_ref()) {
            deepest = cause;
        }
        let name = deepest.name().or(error.name()).unwrap_or(source);
        let file = self.files.get(name).map_or(name, String::as_str);
        let line = deepest.line().or(error.line());
        let message = match deepest.kind() {
            minijinja::ErrorKind::OutOfFuel => "takes too long: a loop without an end?".to_owned(),
            kind => {
                let detail = deepest.detail().map_or_else(|| kind.to_string(), ToOwned::to_owned);
                if detail.contains("recursion limit") {
                    format!("{detail}: do fragments include each other?")
                } else {
                    detail
                }
            }
        };
        let context = if file == source { String::new() } else { format!(" (for {source})") };
        Problem::new(file, line, message + &context)
    }
}

/// Adds the built-in template and every file of the two folders.
fn add_all(
    environment: &mut Environment<'static>,
    texts: &BTreeMap<String, Bytes>,
) -> (BTreeMap<String, String>, Vec<Problem>) {
    let (mut files, mut problems) = (BTreeMap::<String, String>::new(), Vec::new());
    // The built-in one is known to be right: a test renders it.
    let _ = environment.add_template_owned("page.html", builtin::PAGE);
    for (path, bytes) in texts.iter().filter(|(path, _)| part_of(path, 0) == Part::Template) {
        let name = path.split_once('/').map_or(path.as_str(), |(_, name)| name).to_owned();
        let Ok(text) = std::str::from_utf8(bytes) else {
            problems.push(Problem::new(path, None, "is not UTF-8"));
            continue;
        };
        if let Some(other) = files.insert(name.clone(), path.clone()) {
            problems.push(Problem::new(path, None, format!("has the same name as {other}")));
        }
        if let Err(error) = environment.add_template_owned(name, text.to_owned()) {
            let message = error.detail().map_or_else(|| error.kind().to_string(), ToOwned::to_owned);
            problems.push(Problem::new(path, error.line(), message));
        }
    }
    (files, problems)
}

/// The pages of a language as a tree: pages of its first folder (that of the language, if it has a start page there), and the
/// index pages of folders with what is below them.
fn navigation(pages: &[&Page], lang: &str, config: &super::Config) -> Value {
    let mut own: Vec<&Page> = pages.iter().copied().filter(|page| page.lang == lang && page.front.nav).collect();
    own.sort_by(|a, b| {
        let rank = |page: &Page| (page.front.order, !page.is_index());
        rank(a).cmp(&rank(b)).then_with(|| a.title.cmp(&b.title)).then_with(|| a.route.cmp(&b.route))
    });
    let start = format!("/{lang}/index.html");
    let has_start = config.languages.iter().any(|one| one == lang) && own.iter().any(|page| page.route == start);
    let root = if has_start { format!("/{lang}") } else { String::new() };
    Value::from_serialize(items(&own, &root, true))
}

fn items<'a>(pages: &[&'a Page], folder: &str, top: bool) -> Vec<Item<'a>> {
    let belongs = |page: &&&Page| {
        if page.is_index() {
            let above = page.folder().rsplit_once('/').map(|(above, _)| above);
            (top && page.folder() == folder) || (page.folder() != folder && above == Some(folder))
        } else {
            page.folder() == folder
        }
    };
    pages
        .iter()
        .filter(belongs)
        .map(|page| {
            let deeper = page.is_index() && page.folder() != folder;
            let children = if deeper { items(pages, page.folder(), false) } else { Vec::new() };
            Item { title: &page.title, url: &page.url, children }
        })
        .collect()
}
