//! From the address of a drive to a place in it.
//!
//! `https://HOST[:PORT]/SPACE/PATH`, or `holdfast://` for the same; without a space it is the account's own. Names are percent-encoded where a URL needs
//! that. `http://` is for this machine.

use super::DriveSite;
use super::chosen::{Chosen, Memory, Why};
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_drive::engine::sealed::LAYOUTS_MAX;
use holdfast_remote::client::{Options, Plane, Roots, Space, Target, Verdict};
use holdfast_remote::wire::Seen;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// How long a server may be silent, and a request take while it is; what it is about is tried again after that.
const DEADLINE: Duration = Duration::from_mins(1);
/// Within this time a server is near, where TCP takes less work than the plane and loses nothing by it.
const NEAR: Duration = Duration::from_millis(5);
/// How long the plane has to answer before TCP is taken.
const QUIC_TIME: Duration = Duration::from_secs(10);

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
    let ((space, seen), chosen) = match reach.plane {
        Some(plane) => (open(&options, reach, look).await?, Chosen::new(plane, Why::Asked)),
        None => choose(&options, reach, look, &memory).await?,
    };
    let site = DriveSite::new(space, named, seen.map(|seen| (path.clone(), seen)), chosen);
    if is_source && matches!(chosen.why, Why::Near | Why::Far) && options.target.is_encrypted() {
        let plane = if chosen.plane == Plane::Quic { Plane::Tcp } else { Plane::Quic };
        site.try_other(Options { plane, ..options }, &reach.token, memory);
    }
    Ok((site, path))
}

type Opened = (Space, Option<Seen>);

async fn open(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Opened> {
    Space::connect(options, reach.connections, &reach.token, look).await
}

/// By whichever plane was found to be better lately; otherwise by that which suits the distance, and gets through.
async fn choose(
    options: &Options,
    reach: &Reach,
    look: (&DrivePath, usize),
    memory: &Memory,
) -> Result<(Opened, Chosen)> {
    if !options.target.is_encrypted() {
        return Ok((open(options, reach, look).await?, Chosen::new(Plane::Tcp, Why::Near)));
    }
    if let Some(known) = memory.recall(SystemTime::now()) {
        let opening = open_by(known.plane, options, reach, look);
        match timeout(QUIC_TIME, opening).await {
            Ok(Ok(opened)) => return Ok((opened, known)),
            Ok(Err(error)) if is_no_matter_of_transport(&error) => return Err(error),
            // The network is another one.
            _ => memory.forget(),
        }
    }
    let (opened, chosen) = by_plane(options, reach, look).await?;
    if chosen.why == Why::Blocked {
        memory.keep(chosen, SystemTime::now());
    }
    Ok((opened, chosen))
}

async fn open_by(plane: Plane, options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Opened> {
    open(&Options { plane, ..options.clone() }, reach, look).await
}

fn is_no_matter_of_transport(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// What a plane is chosen for, and what is remembered of it, when both were tried.
pub(super) fn after_trial(chosen: Chosen, tried: Plane, verdict: Verdict) -> Chosen {
    match verdict {
        Verdict::Faster => Chosen::new(tried, Why::Faster),
        Verdict::Blocked if tried == Plane::Quic => Chosen::new(chosen.plane, Why::Blocked),
        Verdict::Blocked | Verdict::Same => Chosen::new(chosen.plane, Why::Compared),
    }
}

/// By the plane of QUIC, if the server is far, or hard to reach by TCP, and takes that; otherwise by TCP.
async fn by_plane(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<(Opened, Chosen)> {
    let mut reached = pin!(timeout(QUIC_TIME, options.target.reach()));
    if matches!(timeout(NEAR, &mut reached).await, Ok(Ok(Ok(())))) {
        return Ok((open_by(Plane::Tcp, options, reach, look).await?, Chosen::new(Plane::Tcp, Why::Near)));
    }
    // Both side by side: on a slow network each of them is long. Where TCP does not get through either, there is nothing to hurry to.
    let patience = async {
        let is_reached = matches!(reached.await, Ok(Ok(())));
        tokio::time::sleep(if is_reached { QUIC_TIME } else { DEADLINE }).await;
    };
    let tried = tokio::select! {
        opened = open_by(Plane::Quic, options, reach, look) => opened,
        () = patience => Err(Error::unavailable("it did not answer in time")),
    };
    match tried {
        Ok(opened) => Ok((opened, Chosen::new(Plane::Quic, Why::Far))),
        Err(error) if is_no_matter_of_transport(&error) => Err(error),
        Err(error) => {
            tracing::info!(%error, "over TCP, as the plane of QUIC does not answer");
            Ok((open_by(Plane::Tcp, options, reach, look).await?, Chosen::new(Plane::Tcp, Why::Blocked)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trial_finds_decides_and_says_why() {
        let (near, far) = (Chosen::new(Plane::Tcp, Why::Near), Chosen::new(Plane::Quic, Why::Far));
        for (chosen, tried, verdict, plane, why) in [
            (far, Plane::Tcp, Verdict::Faster, Plane::Tcp, Why::Faster),
            (far, Plane::Tcp, Verdict::Same, Plane::Quic, Why::Compared),
            (far, Plane::Tcp, Verdict::Blocked, Plane::Quic, Why::Compared),
            (near, Plane::Quic, Verdict::Faster, Plane::Quic, Why::Faster),
            (near, Plane::Quic, Verdict::Same, Plane::Tcp, Why::Compared),
            (near, Plane::Quic, Verdict::Blocked, Plane::Tcp, Why::Blocked),
        ] {
            assert_eq!(
                after_trial(chosen, tried, verdict),
                Chosen::new(plane, why),
                "{chosen:?} {tried:?} {verdict:?}"
            );
        }
    }

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
