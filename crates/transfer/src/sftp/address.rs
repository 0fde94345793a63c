//! `sftp://[USER@]HOST[:PORT]/PATH`: paths are absolute on the server, and `/~/` at the beginning is the home folder.

use super::SftpSite;
use super::connect::Target;
use super::item::{Sort, sort};
use super::pool::Pool;
use super::session::Session;
use super::wire::Ask;
use crate::address::Place;
use crate::other::{Login, SiteUrl};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use std::sync::Arc;

/// Connections, if nobody says how many.
const CONNECTIONS: usize = 4;

/// Whether an address is of an SFTP server.
pub(crate) fn is_address(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("sftp"))
}

/// The place a source's address means.
pub(crate) async fn source(address: &str, login: &Login) -> Result<Place> {
    let (url, pool) = parse(address, login)?;
    let session = pool.get().await?;
    let (base, mut names) = base(&session, &url).await?;
    let last = if url.members || names.is_empty() { None } else { names.pop() };
    let folder = canonical(&session, &joined(&base, &names)).await.map_err(|error| error.context(address))?;
    let members = last.is_none();
    let path = DrivePath::from_names(last.into_iter().collect())?;
    let site = SftpSite::new(pool, &session, &folder).await?;
    Ok(Place { site: Arc::new(site), path, members })
}

/// The folder a destination's address means, as far as it is there; the rest is made when something arrives.
pub(crate) async fn destination(address: &str, login: &Login) -> Result<Place> {
    let (url, pool) = parse(address, login)?;
    let session = pool.get().await?;
    let (base, mut names) = base(&session, &url).await?;
    let mut missing = Vec::new();
    loop {
        let path = joined(&base, &names);
        match session.look_through(&path).await? {
            Ok(_) => break,
            Err(status) if status.is_missing() && session.look(&path).await?.is_ok() => {
                let what = format!("{address}: {path} is a link that leads nowhere");
                return Err(Error::new(ErrorKind::WrongKind, what));
            }
            Err(status) if status.is_missing() => match names.pop() {
                Some(name) => missing.push(name),
                None => return Err(status.error("looking at", path)),
            },
            Err(status) => return Err(status.error("looking at", path)),
        }
    }
    missing.reverse();
    let folder = canonical(&session, &joined(&base, &names)).await.map_err(|error| error.context(address))?;
    let site = SftpSite::new(pool, &session, &folder).await?;
    Ok(Place { site: Arc::new(site), path: DrivePath::from_names(missing)?, members: false })
}

fn parse(address: &str, login: &Login) -> Result<(SiteUrl, Pool)> {
    let url = SiteUrl::parse(address)?;
    let user = url.user.clone().or_else(|| login.user.clone()).filter(|user| !user.is_empty());
    let (host, port) = (url.host.clone(), url.port);
    // A configuration of ssh may put both into a line of a shell (%h and %r of ssh_config(5)).
    let unsafe_in_shell = |c: char| c.is_control() || " '\"`$;&<>|(){}*?!".contains(c);
    for word in [Some(&host), user.as_ref()].into_iter().flatten() {
        if word.starts_with('-') || word.ends_with('\\') || word.contains(unsafe_in_shell) {
            return Err(Error::invalid(format!(
                "{address}: {word:?} is no name of a host or an account that ssh takes"
            )));
        }
    }
    let target = Target { host, port, user, login: login.clone() };
    Ok((url, Pool::new(target, login.connections.unwrap_or(CONNECTIONS))))
}

/// Where the names of an address begin: at the root, or at the home folder.
async fn base(session: &Session, url: &SiteUrl) -> Result<(String, Vec<NodeName>)> {
    let mut names = url.path.names().to_vec();
    if names.first().is_none_or(|name| name.as_str() != "~") {
        return Ok((String::new(), names));
    }
    names.remove(0);
    Ok((real_path(session, ".").await?, names))
}

fn joined(base: &str, names: &[NodeName]) -> String {
    let path = names.iter().fold(base.trim_end_matches('/').to_owned(), |path, name| format!("{path}/{name}"));
    if path.is_empty() { "/".into() } else { path }
}

/// The path of a folder that is there, without links in it.
async fn canonical(session: &Session, path: &str) -> Result<String> {
    let attrs = session.look_through(path).await?.map_err(|status| status.error("looking at", path))?;
    if sort(&attrs) != Sort::Folder {
        return Err(Error::new(ErrorKind::WrongKind, format!("{path} is no folder")));
    }
    real_path(session, path).await
}

async fn real_path(session: &Session, path: &str) -> Result<String> {
    let answer = session.path(Ask::RealPath, path).await?.map_err(|status| status.error("finding", path))?;
    let text = std::str::from_utf8(&answer).ok().filter(|text| text.starts_with('/'));
    let text =
        text.ok_or_else(|| Error::invalid(format!("the server's path of {path} is not absolute, or not UTF-8")))?;
    // Parsed and put together again, so that what it is below has no strange parts.
    Ok(joined("", DrivePath::parse(text)?.names()))
}
