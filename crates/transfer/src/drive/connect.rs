//! From the address of a drive to a place in it.
//!
//! `https://HOST[:PORT]/SPACE/PATH`, or `holdfast://` for the same; without a space it is the account's own. Names are percent-encoded where a URL needs
//! that. `http://` is for this machine.

use super::DriveSite;
use super::choose::{Choice, choose, open};
use super::chosen::{Chosen, Memory, Why};
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, Result};
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_remote::client::{Options, Plane, Roots, Target};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may be silent, and a request take while it is; what it is about is tried again after that.
pub(super) const DEADLINE: Duration = Duration::from_mins(1);

/// How a drive is reached.
#[derive(Debug, Clone)]
pub struct Reach {
    /// An app token.
    pub token: Secret,
    /// PEM file of the certificates that are believed, instead of this machine's authorities.
    pub ca: Option<PathBuf>,
    /// Transport; none takes whichever is faster.
    pub plane: Option<Plane>,
    /// Connections; none leaves it to the transport, and to what makes it faster.
    pub connections: Option<usize>,
}

/// Server, space and path that an address means.
fn parse(address: &str) -> Result<(Target, Option<String>, DrivePath)> {
    let bad = |why: &str| Error::invalid(format!("{address}: {why}"));
    let (scheme, rest) =
        address.split_once("://").ok_or_else(|| bad("it is like https://drive.example.org/SPACE/PATH"))?;
    let scheme = if scheme == "holdfast" { "https" } else { scheme };
    if rest.contains(['?', '#']) {
        return Err(bad("a ? or # in a name is written %3F or %23"));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let target = format!("{scheme}://{host}").parse()?;
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| bad("a name in it is not UTF-8"))?;
    let names = path.split('/').filter(|name| !name.is_empty()).count();
    let path = DrivePath::parse(&decoded)?;
    if path.names().len() != names {
        return Err(bad("a name in it has a slash"));
    }
    let mut names = path.names().iter().cloned();
    let space = names.next().map(|name| name.to_string());
    Ok((target, space, DrivePath::from_names(names.collect())?))
}

/// Connects to a drive, as a source if `contents` are asked for with the path; answers its space as a site, and the path in it.
pub async fn connect(address: &str, reach: &Reach, is_source: bool) -> Result<(DriveSite, DrivePath)> {
    let (target, space, path) = parse(address)?;
    let named = format!("{target}/{}", space.as_deref().unwrap_or_default());
    let options = Options {
        roots: reach.ca.clone().map_or(Roots::System, Roots::File),
        space,
        deadline: DEADLINE,
        patience: DEADLINE,
        while_heard: true,
        plane: reach.plane.unwrap_or_default(),
        ..Options::new(target)
    };
    let look = (&path, if is_source { LAYOUTS_MAX } else { 0 });
    let memory = Memory::of(options.target.to_string());
    let choice = match reach.plane {
        Some(plane) => {
            Choice { opened: open(&options, reach, look).await?, chosen: Chosen::new(plane, Why::Asked), late: None }
        }
        None => choose(&options, reach, look, &memory).await?,
    };
    let Choice { opened: (space, seen), chosen, late } = choice;
    let site = DriveSite::new(space, named, seen.map(|seen| (path.clone(), seen)), chosen);
    if reach.plane.is_none() && options.target.is_encrypted() {
        site.keep_choosing(options, reach, memory, late);
    }
    Ok((site, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_server_space_and_path() {
        for (address, server, space, path) in [
            ("https://drive.example/team/a%20b/c", "https://drive.example:443", Some("team"), "/a b/c"),
            ("holdfast://drive.example:8443/team", "https://drive.example:8443", Some("team"), "/"),
            ("https://drive.example/", "https://drive.example:443", None, "/"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80", None, "/"),
            (
                "https://drive.example/team/caf%C3%A9/.hidden/",
                "https://drive.example:443",
                Some("team"),
                "/café/.hidden",
            ),
        ] {
            let (target, found, at) = parse(address).expect(address);
            assert_eq!((target.to_string().as_str(), found.as_deref(), at.to_string().as_str()), (server, space, path));
        }
        for bad in [
            "https://drive.example/team/../x",
            "https://drive.example/team/a%2Fb",
            "https://drive.example/team/%ff",
            "https://drive.example/team?x=1",
            "https://me@drive.example/team",
            "ftp://drive.example/team",
            "http://drive.example/team",
            "https:///team",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
