//! An HTTP request of a plan as a step.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::elements::{Scope, flag};
use super::tree::Element;
use super::variables::Variables;
use crate::load::plan::{Expect, Method, Step};

/// Properties that change nothing here, or are read below.
const KNOWN: [&str; 15] = [
    "domain",
    "port",
    "protocol",
    "path",
    "method",
    "contentEncoding",
    "follow_redirects",
    "auto_redirects",
    "use_keepalive",
    "postBodyRaw",
    "implementation",
    "concurrentDwn",
    "concurrentPool",
    "BROWSER_COMPATIBLE_MULTIPART",
    "monitor",
];
/// Properties that change the load when they are set.
const REFUSED: [(&str, &str); 6] = [
    ("image_parser", "getting what a page embeds"),
    ("DO_MULTIPART_POST", "multipart bodies"),
    ("ipSource", "choosing the source address"),
    ("proxyHost", "a proxy"),
    ("proxyPort", "a proxy"),
    ("embedded_url_re", "getting what a page embeds"),
];

/// A property of the request, or of the innermost defaults that have it.
struct Properties<'s> {
    element: &'s Element,
    scope: &'s Scope<'s>,
    variables: &'s Variables<'s>,
}

impl Properties<'_> {
    fn text(&self, name: &str) -> anyhow::Result<String> {
        let name = format!("HTTPSampler.{name}");
        let all = std::iter::once(self.element).chain(self.scope.defaults.iter().copied());
        let found = all.map(|element| element.text_of(&name)).find(|text| !text.is_empty());
        Ok(self.variables.expand(found.unwrap_or(""))?.trim().to_owned())
    }
}

/// Reads an HTTP request.
pub(super) fn step(
    element: &Element,
    scope: &Scope<'_>,
    variables: &Variables<'_>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Step> {
    let name = element.name();
    let properties = Properties { element, scope, variables };
    refuse_what_is_not_understood(&properties, warnings)?;
    let method = match properties.text("method")?.as_str() {
        "" | "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        other => bail!("{name}: the method {other:.40} is not understood, only GET, HEAD, POST and PUT"),
    };
    let arguments = arguments(&properties)?;
    let mut url = address(&properties).with_context(|| format!("{name}: its address"))?;
    let mut headers = Arc::clone(&scope.headers);
    let mut body = String::new();
    if method.has_body() {
        let raw = flag(element, "HTTPSampler.postBodyRaw", false, variables)?
            || arguments.iter().all(|argument| argument.name.is_empty());
        if raw {
            body = arguments.into_iter().map(|argument| argument.value).collect();
        } else {
            body = form(&arguments);
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Content-Type")) {
                let form = ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned());
                headers = headers.iter().cloned().chain([form]).collect();
            }
        }
    } else if !arguments.is_empty() {
        let query = form(&arguments);
        let query = url.query().map_or_else(|| query.clone(), |own| format!("{own}&{query}"));
        url.set_query(Some(&query));
    }
    Ok(Step {
        name: name.to_owned(),
        credentials: scope.credentials(url.as_str()),
        url,
        method,
        headers,
        body: Arc::from(body.into_bytes()),
        keep_alive: flag(element, "HTTPSampler.use_keepalive", true, variables)?,
        think: scope.thinks.clone(),
        expect: Expect::default(),
    })
}

fn refuse_what_is_not_understood(properties: &Properties<'_>, warnings: &mut Vec<String>) -> anyhow::Result<()> {
    let name = properties.element.name();
    for (property, what) in REFUSED {
        let value = properties.text(property)?;
        ensure!(
            matches!(value.as_str(), "" | "false" | "0"),
            "{name}: {what} (HTTPSampler.{property}) is not understood"
        );
    }
    let files = properties.element.element("HTTPsampler.Files");
    let files = files.map_or(&[][..], |files| files.inside("HTTPFileArgs.files"));
    ensure!(files.is_empty(), "{name}: sending files is not understood");
    for property in ["follow_redirects", "auto_redirects"] {
        if properties.text(property)? == "true" {
            warnings.push("redirects are not followed: a status that is not 2xx counts as a failure".to_owned());
        }
    }
    let all = std::iter::once(properties.element).chain(properties.scope.defaults.iter().copied());
    for child in all.flat_map(|element| &element.children) {
        let Some(property) = child.attribute("name").and_then(|name| name.strip_prefix("HTTPSampler.")) else {
            continue;
        };
        let known = KNOWN.contains(&property) || REFUSED.iter().any(|(name, _)| *name == property);
        if !known && !matches!(child.text.trim(), "" | "false" | "0") {
            warnings.push(format!("{name}: HTTPSampler.{property} is passed over"));
        }
    }
    Ok(())
}

struct Argument {
    name: String,
    value: String,
    encode: bool,
}

/// The request's own arguments, then those of the defaults.
fn arguments(properties: &Properties<'_>) -> anyhow::Result<Vec<Argument>> {
    let all = std::iter::once(properties.element).chain(properties.scope.defaults.iter().copied());
    let lists = all.filter_map(|element| element.element("HTTPsampler.Arguments"));
    let entries = lists.flat_map(|list| list.inside("Arguments.arguments"));
    let read = |entry: &Element| {
        Ok(Argument {
            name: properties.variables.expand(entry.text_of("Argument.name"))?,
            value: properties.variables.expand(entry.text_of("Argument.value"))?,
            encode: flag(entry, "HTTPArgument.always_encode", false, properties.variables)?,
        })
    };
    entries.map(read).collect()
}

/// `name=value&…`; what is not to be encoded is so already.
fn form(arguments: &[Argument]) -> String {
    let part = |text: &str, encode| if encode { byte_serialize(text.as_bytes()).collect() } else { text.to_owned() };
    let pairs = arguments.iter().map(|argument| {
        let value = part(&argument.value, argument.encode);
        if argument.name.is_empty() { value } else { format!("{}={value}", part(&argument.name, argument.encode)) }
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn address(properties: &Properties<'_>) -> anyhow::Result<Url> {
    let path = properties.text("path")?;
    let mut url = if path.starts_with("http://") || path.starts_with("https://") {
        Url::parse(&path)?
    } else {
        let (protocol, domain, port) =
            (properties.text("protocol")?, properties.text("domain")?, properties.text("port")?);
        let protocol = if protocol.is_empty() { "http".to_owned() } else { protocol.to_ascii_lowercase() };
        ensure!(
            matches!(protocol.as_str(), "http" | "https"),
            "the protocol {protocol:.40?} is neither http nor https"
        );
        ensure!(!domain.is_empty(), "no server is named (HTTPSampler.domain)");
        let domain = if domain.contains(':') && !domain.starts_with('[') { format!("[{domain}]") } else { domain };
        // Only a name: nothing in it may turn the rest into something else.
        ensure!(!domain.contains(['/', '\\', '@', '?', '#']), "{domain:.80?} is no name of a server");
        let port = if port.is_empty() || port == "0" { String::new() } else { format!(":{}", port.parse::<u16>()?) };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Url::parse(&format!("{protocol}://{domain}{port}{slash}{path}"))?
    };
    ensure!(url.username().is_empty() && url.password().is_none(), "credentials belong into an authorization manager");
    url.set_fragment(None);
    Ok(url)
}
