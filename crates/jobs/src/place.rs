//! Places that jobs name: `ALIAS:path` or `ALIAS@LOGIN:path` of a described site, an address, or a path of this machine.
//!
//! A path below a site cannot climb out of the site's address. Paths of this machine are below the folder of the job file, unless they begin with a
//! slash.

use crate::file::{LoginText, Plane, Set, Site};
use crate::template::{Combination, Fill, Template, is_name};
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, Result};
use holdfast_transfer::address::Access;
use holdfast_transfer::drive;
use holdfast_transfer::other::Login;
use jiff::ZonedDateTime;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// What a name in a URL is encoded for (RFC 3986, section 3.3, and the percent sign itself).
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Longest line that is taken for a secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A place that a job names.
#[derive(Debug, Clone)]
pub struct Spot {
    /// Its address, as the transfer crate takes it.
    pub address: String,
    /// The site it is of, and the login that is used.
    pub site: Option<(String, Arc<Site>, LoginText)>,
}

/// Fills a template of a path.
pub fn fill(template: &Template, due: &ZonedDateTime, variables: &Combination) -> Result<String> {
    let named = |name: &str| variables.get(name).cloned();
    template.fill(&Fill { due, modified: None, named: &named })
}

/// Refuses an address with a password in it, without repeating it.
pub fn check_address(address: &str) -> Result<()> {
    let Some((_, rest)) = address.split_once("://") else { return Ok(()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => Err(Error::invalid(
            "an address cannot have a password in it: give user and password-file, or password-env, in a login of the site",
        )),
        _ => Ok(()),
    }
}

impl Spot {
    /// Reads a place; `folder` is that of the job file.
    pub fn parse(text: &str, set: &Set, folder: &Path) -> Result<Self> {
        check_address(text)?;
        if text.contains("://") || is_list(text) {
            return Ok(Self { address: text.to_owned(), site: None });
        }
        if let Some((alias, path)) = text.split_once(':').filter(|(alias, _)| !alias.contains('/')) {
            let (alias, login) = alias.split_once('@').map_or((alias, None), |(alias, login)| (alias, Some(login)));
            return Self::of_site(text, (alias, login), path, set);
        }
        Ok(Self { address: local(folder, text)?, site: None })
    }

    fn of_site(text: &str, (alias, login): (&str, Option<&str>), path: &str, set: &Set) -> Result<Self> {
        let site = set.sites.get(alias).filter(|_| is_name(alias)).ok_or_else(|| {
            let known: Vec<&str> = set.sites.keys().map(String::as_str).take(20).collect();
            Error::invalid(format!("{text:?}: there is no [sites.{alias}] (there are: {}); a file of this machine with a colon is written ./{text}", known.join(", ")))
        })?;
        let login = match login {
            None => site.text.login.clone(),
            Some(name) => {
                let found = site.text.logins.get(name);
                found
                    .cloned()
                    .ok_or_else(|| Error::invalid(format!("{text:?}: the site has no [sites.{alias}.logins.{name}]")))?
            }
        };
        Ok(Self { address: below(site, path)?, site: Some((alias.to_owned(), Arc::clone(site), login)) })
    }

    /// How one gets in, with secrets as they are now. `connections` is what may be used at a time.
    pub fn access(&self, connections: Option<usize>) -> Result<Access> {
        let Some((alias, site, login)) = &self.site else { return Ok(Access::default()) };
        let about = |error: Error| error.context(format!("site {alias}"));
        let secret = |file: Option<&Path>, variable: Option<&str>| match (file, variable) {
            (Some(file), _) => from_file(&site.folder.join(file)).map(Some).map_err(about),
            (None, Some(variable)) => from_environment(variable).map(Some).map_err(about),
            (None, None) => Ok(None),
        };
        let token = secret(login.token_file.as_deref(), login.token_env.as_deref().map(|name| name.0.as_str()))?;
        let password =
            secret(login.password_file.as_deref(), login.password_env.as_deref().map(|name| name.0.as_str()))?;
        let ca = site.text.ca.as_deref().map(|ca| site.folder.join(ca));
        let plane = match site.text.plane {
            None | Some(Plane::Auto) => None,
            Some(Plane::Tcp) => Some(drive::Plane::Tcp),
            Some(Plane::Quic) => Some(drive::Plane::Quic),
        };
        let identity = login.identity.as_deref().map(|identity| site.folder.join(identity));
        let ssh_config = site.text.ssh_config.as_deref().map(|config| site.folder.join(config));
        let user = login.user.clone();
        let login = Login { user, password, identity, ssh_config, ca: ca.clone(), connections, ..Login::default() };
        Ok(Access { token, ca, plane, connections, login })
    }
}

/// Whether an address is of files of web servers, which are not below each other.
pub fn is_web(address: &str) -> bool {
    address.starts_with("web:") || is_list(address)
}

fn is_list(address: &str) -> bool {
    ["web-list:", "metalink:"].iter().any(|kind| address.starts_with(kind))
}

/// An address below that of a site.
fn below(site: &Site, path: &str) -> Result<String> {
    let address = site.text.address.trim();
    let (path, members) = match path.strip_suffix("/.") {
        Some(path) => (path, true),
        None if path == "." => ("", true),
        None => (path, false),
    };
    // Refuses what climbs.
    let path = DrivePath::parse(path)?;
    let mut whole = if address.contains("://") { address.to_owned() } else { local(&site.folder, address)? };
    if !path.is_root() {
        let kept = whole.strip_suffix("/.").unwrap_or(&whole).trim_end_matches('/').len();
        whole.truncate(kept);
        for name in path.names() {
            whole.push('/');
            if address.contains("://") {
                whole.extend(utf8_percent_encode(name.as_str(), ENCODED));
            } else {
                whole.push_str(name.as_str());
            }
        }
    }
    Ok(if members && !whole.ends_with("/.") { format!("{}/.", whole.trim_end_matches('/')) } else { whole })
}

/// A path of this machine. A slash and a dot at its end stay, since they mean something.
fn local(folder: &Path, path: &str) -> Result<String> {
    if path.is_empty() {
        return Err(Error::invalid("a path is empty"));
    }
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    let folder = folder.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", folder.display())))?;
    Ok(format!("{}/{path}", folder.trim_end_matches('/')))
}

/// The first line of a file.
pub fn from_file(path: &Path) -> Result<Secret> {
    let about = |error: std::io::Error| Error::from(error).context(format!("reading a secret from {}", path.display()));
    let file = std::fs::File::open(path).map_err(about)?;
    let mut line = String::new();
    BufReader::new(file.take(SECRET_BYTES_MAX)).read_line(&mut line).map_err(about)?;
    match line.trim_end_matches(['\n', '\r']) {
        "" => Err(Error::invalid(format!("the first line of {} is empty", path.display()))),
        text => Ok(Secret::new(text)),
    }
}

/// What an environment variable has.
pub fn from_environment(name: &str) -> Result<Secret> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => Ok(Secret::new(&text)),
        _ => Err(Error::invalid(format!("the environment variable {name} has nothing in it that is text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Loaded;

    fn set(text: &str) -> Set {
        Set::of(&[Loaded::parse("/etc/jobs/a.toml".into(), text).expect("reads")]).expect("fits")
    }

    fn address(set: &Set, text: &str) -> Result<String> {
        Spot::parse(text, set, Path::new("/etc/jobs")).map(|spot| spot.address)
    }

    #[test]
    fn a_place_is_below_its_site_or_the_folder_of_the_file() {
        let set =
            set("[sites.a]\naddress = 'sftp://h/data/.'\n[sites.l]\naddress = 'in'\n[sites.l.logins.up]\nuser = 'ann'");
        for (text, expected) in [
            ("a:x y/é%", "sftp://h/data/x%20y/é%25"),
            ("a:", "sftp://h/data/."),
            ("a:sub/.", "sftp://h/data/sub/."),
            ("l:x", "/etc/jobs/in/x"),
            ("l@up:.", "/etc/jobs/in/."),
            ("x/.", "/etc/jobs/x/."),
            ("/x", "/x"),
            ("./l:x", "/etc/jobs/./l:x"),
            ("web:https://h/f", "web:https://h/f"),
        ] {
            let expected = if expected.contains('é') { "sftp://h/data/x%20y/%C3%A9%25" } else { expected };
            assert_eq!(address(&set, text).expect(text), expected);
        }
        for bad in ["a:../x", "a:x/../..", "b:x", "a@up:x", "", "sftp://ann:hush@h/x"] {
            let error = address(&set, bad).expect_err(bad);
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
