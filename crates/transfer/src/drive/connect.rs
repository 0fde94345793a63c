//! From the address of a drive to a place in it.
//!
//! `https://HOST[:PORT]/SPACE/PATH`, or `holdfast://` for the same; without a space it is the account's own. Names are percent-encoded where a URL needs
//! that. `http://` is for this machine.

use super::DriveSite;
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_remote::client::{Options, Plane, Roots, Space, Target};
use holdfast_remote::wire::Seen;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server may be silent, and a request take while it is; what it is about is tried again after that.
const DEADLINE: Duration = Duration::from_mins(1);
/// Within this time a server is near, where TCP takes less work than the plane and loses nothing by it.
const NEAR: Duration = Duration::from_millis(5);
/// How long the plane has to answer before TCP is taken.
const QUIC_TIME: Duration = Duration::from_secs(10);
/// Connections over TCP: on a slow network one's window is not the limit of all.
const TCP_CONNECTIONS: usize = 4;

/// How a drive is reached.
#[derive(Debug, Clone)]
pub struct Reach {
    /// An app token.
    pub token: Secret,
    /// PEM file of the certificates that are believed, instead of this machine's authorities.
    pub ca: Option<PathBuf>,
    /// Transport; none takes whichever is faster.
    pub plane: Option<Plane>,
    /// Connections; none leaves it to the transport.
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
    let opened = match reach.plane {
        Some(_) => None,
        None => by_plane(&options, reach, look).await?,
    };
    let (space, seen) = match opened {
        Some(opened) => opened,
        None => open(&options, reach, look).await?,
    };
    Ok((DriveSite::new(space, named, seen.map(|seen| (path.clone(), seen))), path))
}

type Opened = (Space, Option<Seen>);

async fn open(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Opened> {
    let usual = if options.plane == Plane::Quic { 1 } else { TCP_CONNECTIONS };
    Space::connect(options, reach.connections.unwrap_or(usual), &reach.token, look).await
}

/// By the plane of QUIC, if the server is far, or hard to reach by TCP, and takes that.
async fn by_plane(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Option<Opened>> {
    if !options.target.is_encrypted() {
        return Ok(None);
    }
    let mut reached = pin!(timeout(QUIC_TIME, options.target.reach()));
    if matches!(timeout(NEAR, &mut reached).await, Ok(Ok(Ok(())))) {
        return Ok(None);
    }
    let options = Options { plane: Plane::Quic, ..options.clone() };
    // Both side by side: on a slow network each of them is long. Where TCP does not get through either, there is nothing to hurry to.
    let patience = async {
        let is_reached = matches!(reached.await, Ok(Ok(())));
        tokio::time::sleep(if is_reached { QUIC_TIME } else { DEADLINE }).await;
    };
    let tried = tokio::select! {
        opened = open(&options, reach, look) => opened,
        () = patience => Err(Error::unavailable("it did not answer in time")),
    };
    match tried {
        Ok(opened) => Ok(Some(opened)),
        // Not a matter of the transport.
        Err(error)
            if matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden | ErrorKind::NotFound) =>
        {
            Err(error)
        }
        Err(error) => {
            tracing::info!(%error, "over TCP, as the plane of QUIC does not answer");
            Ok(None)
        }
    }
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
