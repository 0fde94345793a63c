//! Addresses of sites: `SCHEME://[USER@]HOST[:PORT]/PATH`, RFC 3986, where names are percent-encoded as far as a URL needs it.

use holdfast_base::{DrivePath, Error, Result};
use percent_encoding::percent_decode_str;

/// An address in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteUrl {
    /// What is before `://`, in small letters.
    pub scheme: String,
    /// Who signs in.
    pub user: Option<String>,
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    /// The port, if one is given.
    pub port: Option<u16>,
    /// What is after the host, without the `/.` that asks for members.
    pub path: DrivePath,
    /// Whether the members are meant and not the folder itself: the path ended in `/.`, or was none.
    pub members: bool,
}

impl SiteUrl {
    /// Takes an address apart. A password in it is refused, since every process of a machine sees command lines.
    pub fn parse(address: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("{address}: {why}"));
        let (scheme, rest) = address.split_once("://").ok_or_else(|| bad("it is like sftp://host/folder"))?;
        if rest.contains(['?', '#']) {
            return Err(bad("a ? or # in a name is written %3F or %23"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                let kept = format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host));
                return Err(Error::invalid(format!(
                    "{kept}: an address cannot have a password in it: others see command lines"
                )));
            }
            Some((user, host)) => (Some(decoded(user).ok_or_else(|| bad("its user is not UTF-8"))?), host),
            None => (None, authority),
        };
        let (host, port) = host_and_port(host).ok_or_else(|| bad("its host or port is none"))?;
        let members = path.is_empty() || path == "." || path.ends_with("/.");
        let path = path.strip_suffix('.').filter(|_| members).unwrap_or(path);
        let names = path.split('/').filter(|name| !name.is_empty()).count();
        let path = DrivePath::parse(&decoded(path).ok_or_else(|| bad("a name in it is not UTF-8"))?)?;
        if path.names().len() != names {
            return Err(bad("a name in it has a slash"));
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), user, host, port, members: members || path.is_root(), path })
    }

    /// Scheme, host and port, as it is shown.
    pub fn origin(&self) -> String {
        let Self { scheme, host, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}")
    }
}

fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let fits = !host.is_empty() && !host.contains([' ', '\t', '\n', '\\']);
    let port = port.map(str::parse).transpose().ok()?;
    fits.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(address: &str) -> (Option<String>, String, Option<u16>, String, bool) {
        let url = SiteUrl::parse(address).expect(address);
        (url.user, url.host, url.port, url.path.to_string(), url.members)
    }

    #[test]
    fn an_address_is_taken_apart() {
        let ann = Some("ann".to_owned());
        assert_eq!(parsed("sftp://ann@h:22/a/b"), (ann.clone(), "h".into(), Some(22), "/a/b".into(), false));
        assert_eq!(parsed("sftp://ann@[::1]:22/a%20b/."), (ann, "::1".into(), Some(22), "/a b".into(), true));
        assert_eq!(parsed("ftp://h"), (None, "h".into(), None, "/".into(), true));
        assert_eq!(parsed("ftp://h/."), (None, "h".into(), None, "/".into(), true));
        assert_eq!(parsed("ftp://h/a."), (None, "h".into(), None, "/a.".into(), false));
        assert_eq!(SiteUrl::parse("FTP://[::1]:2/a").expect("parses").origin(), "ftp://[::1]:2");
    }

    #[test]
    fn what_is_no_address_or_has_a_password_is_refused_without_showing_it() {
        for bad in [
            "h/a",
            "ftp:///a",
            "ftp://h:x/a",
            "ftp://h:99999/a",
            "ftp://[::1/a",
            "ftp://h/a%2Fb",
            "ftp://h/..",
            "ftp://h/%FF",
        ] {
            assert!(SiteUrl::parse(bad).is_err(), "{bad}");
        }
        let said = SiteUrl::parse("ftp://ann:hush@h/a").expect_err("a password").to_string();
        assert!(!said.contains("hush") && said.contains("password"), "{said}");
    }

    proptest! {
        #[test]
        fn no_text_panics_or_leads_out(text in ".{0,40}") {
            if let Ok(url) = SiteUrl::parse(&format!("ftp://h/{text}")) {
                prop_assert!(url.path.names().iter().all(|name| name.as_str() != ".."));
            }
        }
    }
}
