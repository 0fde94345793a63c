//! A server to measure: its label, its URL, its credentials, its processes and its data folder.

use std::fmt;
use std::path::PathBuf;

use url::Url;

/// One server, as given on the command line.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// Name used in the report.
    pub label: String,
    /// A WebDAV folder, ending with a slash, or a page; without user and password.
    pub url: Url,
    /// User and password for Basic authentication.
    pub credentials: Option<(String, String)>,
    /// Roots of the server's process trees, for CPU and memory figures.
    pub pids: Vec<u32>,
    /// The server's data folder on this machine, for stored sizes.
    pub store_dir: Option<PathBuf>,
}

/// Why a target could not be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    /// The URL part is not a URL.
    #[error("{url:?} is no URL ({why}); write URL or LABEL=URL")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something else than HTTP.
    #[error("{0:?}: only http and https can be measured")]
    Scheme(String),
    /// `LABEL=` without a label.
    #[error("{0:?} has an empty label")]
    EmptyLabel(String),
}

impl TargetSpec {
    /// Reads `URL` or `LABEL=URL` of a folder. A user and password in the URL become the credentials.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let mut target = Self::parse_page(text)?;
        let labelled_by_place = target.label == place(&target.url);
        target.url.set_query(None);
        if !target.url.path().ends_with('/') {
            target.url.set_path(&format!("{}/", target.url.path()));
        }
        if labelled_by_place {
            place(&target.url).trim_end_matches('/').clone_into(&mut target.label);
        }
        Ok(target)
    }

    /// Reads `URL` or `LABEL=URL` of anything that can be asked for: path and query stay as they are.
    pub fn parse_page(text: &str) -> Result<Self, TargetError> {
        let (label, address) = split_label(text);
        if label == Some("") {
            return Err(TargetError::EmptyLabel(text.to_owned()));
        }
        let mut url = Url::parse(address)
            .map_err(|error| TargetError::Url { url: redact_url(address), why: error.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(TargetError::Scheme(redact_url(address)));
        }
        let credentials =
            (!url.username().is_empty()).then(|| (decode(url.username()), decode(url.password().unwrap_or_default())));
        // These cannot fail for a URL that has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let label = label.map_or_else(|| place(&url), str::to_owned);
        Ok(Self { label, url, credentials, pids: Vec::new(), store_dir: None })
    }
}

/// Splits `LABEL=REST`; a slash before the equals sign means that it belongs to a URL or path without a label.
pub(crate) fn split_label(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((label, rest)) if !label.contains('/') => (Some(label.trim()), rest),
        _ => (None, text),
    }
}

/// What a target without a label is called.
fn place(url: &Url) -> String {
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    format!("{}{}{query}", url.authority(), url.path())
}

/// Without the password.
impl fmt::Debug for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.credentials.as_ref().map(|(user, _)| user);
        f.debug_struct("TargetSpec")
            .field("label", &self.label)
            .field("url", &self.url.as_str())
            .field("user", &user)
            .field("pids", &self.pids)
            .field("store_dir", &self.store_dir)
            .finish()
    }
}

/// Undoes percent encoding; what is not valid stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let (b'%', Some(value)) = (first, value) {
            bytes.push(value);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Hides a password inside a URL, wherever in `text` the URL stands.
pub(crate) fn redact_url(text: &str) -> String {
    let Some(scheme_end) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let authority_end = text[scheme_end..].find('/').map_or(text.len(), |at| scheme_end + at);
    let authority = &text[scheme_end..authority_end];
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{}{user}:***@{host}{}", &text[..scheme_end], &text[authority_end..])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_alone_is_labelled_by_its_place() {
        let target = TargetSpec::parse("http://127.0.0.1:8080/dav/alice").expect("a good URL");
        assert_eq!(target.label, "127.0.0.1:8080/dav/alice");
        assert_eq!(target.url.as_str(), "http://127.0.0.1:8080/dav/alice/");
        assert_eq!(target.credentials, None);
    }

    #[test]
    fn a_label_stands_before_the_first_equals_sign() {
        let target = TargetSpec::parse("ours=https://[::1]:8443/dav/?x=y#z").expect("a good URL");
        assert_eq!((target.label.as_str(), target.url.as_str()), ("ours", "https://[::1]:8443/dav/"));
        let unlabelled = TargetSpec::parse("http://h/a=b/").expect("a good URL");
        assert_eq!(unlabelled.label, "h/a=b");
    }

    #[test]
    fn a_page_keeps_its_path_and_query() {
        let target = TargetSpec::parse_page("http://h/about.html?a=b#c").expect("a good URL");
        assert_eq!((target.label.as_str(), target.url.as_str()), ("h/about.html?a=b", "http://h/about.html?a=b"));
    }

    #[test]
    fn credentials_in_the_url_are_decoded_and_never_shown() {
        let target = TargetSpec::parse("a=http://me%40home:p%3Aw@h/").expect("a good URL");
        assert_eq!(target.credentials, Some(("me@home".to_owned(), "p:w".to_owned())));
        assert_eq!(target.url.as_str(), "http://h/");
        assert!(!format!("{target:?}").contains("p:w"));
    }

    #[test]
    fn what_is_no_http_url_is_refused_without_showing_a_password() {
        for text in ["", "host/path", "=http://h/", "ftp://h/", "a=file:///x", "http://"] {
            assert!(TargetSpec::parse(text).is_err(), "{text:?}");
        }
        let error = TargetSpec::parse("ftp://u:secret@h/").expect_err("not HTTP");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn a_password_inside_a_command_line_word_is_hidden() {
        assert_eq!(redact_url("x=http://u:p@h/a@b"), "x=http://u:***@h/a@b");
        assert_eq!(redact_url("http://h/a"), "http://h/a");
        assert_eq!(redact_url("plain"), "plain");
    }
}
