//! Addresses of places: a path of this machine, the URL of a drive or of an SFTP server, or `web:` and the URL of a file.

use crate::drive::{Plane, Reach, connect};
use crate::ftp::{FtpSite, is_ftp};
use crate::imap::{ImapSite, is_imap};
use crate::other::{Login, SiteUrl};
use crate::site::{Kind, Site};
use crate::web::is_web;
use crate::{DavSite, Leg, LocalSite, S3Site, SwiftSite, WebSite, sftp};
use holdfast_auth::Secret;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How drives are reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// An app token, which every drive needs.
    pub token: Option<Secret>,
    /// PEM file of the certificates that are believed, instead of this machine's authorities.
    pub ca: Option<PathBuf>,
    /// Transport; none takes whichever suits the network.
    pub plane: Option<Plane>,
    /// Connections at a time; none leaves it to the transport.
    pub connections: Option<usize>,
    /// How one signs in to what is no drive.
    pub login: Login,
}

/// A place: a site, and a path in it.
#[derive(Clone)]
pub struct Place {
    /// The site.
    pub site: Arc<dyn Site>,
    /// The path in it.
    pub path: DrivePath,
    /// Whether the members are meant and not the folder itself: the address ended in `/.`.
    pub members: bool,
}

/// The place a source's address means, which need not be there yet.
pub async fn source_of(address: &str, access: &Access) -> Result<Place> {
    if is_web(address) {
        let (site, path, members) = WebSite::at(address, &access.login).await?;
        return Ok(Place { site: Arc::new(site), path, members });
    }
    if sftp::is_address(address) {
        return sftp::source(address, &access.login).await;
    }
    if is_imap(address) {
        let url = SiteUrl::parse(address)?;
        let site = Arc::new(ImapSite::new(&url, &access.login)?);
        return Ok(Place { site, path: url.path, members: url.members });
    }
    if let Some(place) = of_objects(address, access, true).await? {
        return Ok(place);
    }
    if is_url(address) {
        return site_of(address, access, true).await;
    }
    let path = Path::new(address);
    if asks_for_members(path) {
        let site = Arc::new(LocalSite::open(path)?);
        return Ok(Place { site, path: DrivePath::root(), members: true });
    }
    let (folder, name) = split(path)?;
    let site = Arc::new(LocalSite::open(&folder).map_err(|error| error.context(address))?);
    Ok(Place { site, path: DrivePath::from_names(vec![name])?, members: false })
}

/// The folder a destination's address means. What of it is not there yet is made when something arrives.
pub async fn destination_of(address: &str, access: &Access) -> Result<Place> {
    if is_web(address) {
        return Err(Error::new(ErrorKind::Unsupported, "files can be pulled from a web server, and not pushed to it"));
    }
    if sftp::is_address(address) {
        return sftp::destination(address, &access.login).await;
    }
    if is_imap(address) {
        let what = "attachments can be pulled from a mailbox, and nothing can be put into one";
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    if let Some(place) = of_objects(address, access, false).await? {
        return Ok(place);
    }
    if is_url(address) {
        return site_of(address, access, false).await;
    }
    let mut there = std::path::absolute(address).map_err(|error| Error::from(error).context(address))?;
    let mut missing = Vec::new();
    // A link that leads nowhere is in the way, and not missing.
    while there.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        match there.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name_of(name)?),
            _ => {
                return Err(Error::invalid(format!("{address}: what is not there yet cannot be left again by \"..\"")));
            }
        }
        there.pop();
    }
    missing.reverse();
    let site = Arc::new(LocalSite::open(&there).map_err(|error| error.context(address))?);
    Ok(Place { site, path: DrivePath::from_names(missing)?, members: false })
}

/// The place at a drive.
async fn site_of(address: &str, access: &Access, is_source: bool) -> Result<Place> {
    if is_ftp(address) {
        let url = SiteUrl::parse(address)?;
        let site = Arc::new(FtpSite::new(&url, &access.login)?);
        return Ok(Place { site, path: url.path, members: url.members });
    }
    let token = access.token.clone().ok_or_else(|| {
        Error::invalid(format!(
            "{address}: --token-file FILE is missing: a file with an app token (`holdfast token create`, or the pages)"
        ))
    })?;
    let reach = Reach { token, ca: access.ca.clone(), plane: access.plane, connections: access.connections };
    // `/.` at the end says that the members are meant, as with a path.
    let members = address.ends_with("/.");
    let (site, path) = connect(address.strip_suffix("/.").unwrap_or(address), &reach, is_source).await?;
    let members = members || path.is_root();
    Ok(Place { site: Arc::new(site), path, members })
}

/// The place at a server of objects or of WebDAV, if the address is of one; what is not there yet of a destination is no matter.
async fn of_objects(address: &str, access: &Access, is_source: bool) -> Result<Option<Place>> {
    if !is_url(address) {
        return Ok(None);
    }
    let (scheme, rest) = address.split_once(':').unwrap_or_default();
    let (site, path, members): (Arc<dyn Site>, DrivePath, bool) = match scheme {
        "s3" => {
            let url = SiteUrl::parse(address)?;
            (Arc::new(S3Site::new(&url, &access.login)?), url.path, url.members)
        }
        "swift" => {
            let url = SiteUrl::parse(address)?;
            (Arc::new(SwiftSite::new(&url, &access.login)?), url.path, url.members)
        }
        "dav" => {
            let url = SiteUrl::parse(rest)?;
            let (site, path) = if is_source {
                DavSite::source(&url, &access.login)?
            } else {
                DavSite::destination(&url, &access.login).await?
            };
            (Arc::new(site), path, url.members)
        }
        _ => return Ok(None),
    };
    Ok(Some(Place { site, path, members }))
}

/// Where sources go inside a destination: each under its own name, or its members.
pub fn legs(sources: Vec<Place>, destination: &Place) -> Result<Vec<Leg>> {
    let mut legs: Vec<Leg> = Vec::with_capacity(sources.len());
    let mut names = std::collections::HashSet::new();
    for source in sources {
        let to = match source.path.name().filter(|_| !source.members) {
            Some(name) if !names.insert(name.clone()) => {
                return Err(Error::invalid(format!("two of the sources would arrive as {name}")));
            }
            Some(name) => destination.path.join(name.clone())?,
            None => destination.path.clone(),
        };
        legs.push(Leg { source: source.site, from: source.path, to });
    }
    Ok(legs)
}

/// Refuses a place that is no folder.
pub async fn must_be_folder(place: &Place) -> Result<()> {
    match place.site.look(&place.path).await? {
        Some(item) if item.kind == Kind::Folder => Ok(()),
        Some(_) => {
            Err(Error::new(ErrorKind::WrongKind, format!("{} in {} is no folder", place.path, place.site.address())))
        }
        None => Err(Error::not_found(format!("there is no {} in {}", place.path, place.site.address()))),
    }
}

fn is_url(address: &str) -> bool {
    address.contains("://")
}

/// Whether a path is `.` or ends in `/.`, which [`Path::components`] passes over.
fn asks_for_members(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes == b"." || bytes.ends_with(b"/.")
}

/// The folder something is in, and its name there.
fn split(path: &Path) -> Result<(PathBuf, NodeName)> {
    let whole;
    let path = if path.file_name().is_some() {
        path
    } else {
        // What ends in `..` has a name, too, which has to be asked for.
        whole = path.canonicalize().map_err(|error| Error::from(error).context(path.display()))?;
        whole.as_path()
    };
    let nameless =
        || Error::invalid(format!("{} has no name to arrive under: write /. for what is in it", path.display()));
    let name = name_of(path.file_name().ok_or_else(nameless)?)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder.to_owned(), name))
}

fn name_of(name: &std::ffi::OsStr) -> Result<NodeName> {
    let text = name.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", name.display())))?;
    NodeName::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_arrives_under_its_own_name_and_a_dot_means_its_members() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().to_str().expect("text");
        std::fs::create_dir(folder.path().join("a")).expect("makes");
        let access = Access::default();
        let to = destination_of(&format!("{at}/new/deep"), &access).await.expect("a destination");
        assert_eq!(to.path, DrivePath::parse("new/deep").expect("a path"));
        for (address, arrives) in [("a", "new/deep/a"), ("a/", "new/deep/a"), ("a/.", "new/deep")] {
            let from = source_of(&format!("{at}/{address}"), &access).await.expect(address);
            let legs = legs(vec![from], &to).expect("legs");
            assert_eq!(legs[0].to, DrivePath::parse(arrives).expect("a path"), "{address}");
        }
        let twice = [
            source_of(&format!("{at}/a"), &access).await.expect("a"),
            source_of(&format!("{at}/a"), &access).await.expect("a"),
        ];
        assert!(legs(twice.into(), &to).is_err_and(|error| error.kind() == ErrorKind::InvalidInput));
    }

    #[tokio::test]
    async fn places_at_other_servers_arrive_under_their_own_names_as_well() {
        let login = Login {
            user: Some("a:u".into()),
            password: Some(Secret::new("p")),
            endpoint: Some("http://127.0.0.1:1/auth/v1.0".into()),
            ..Login::default()
        };
        let objects = Access { login: login.clone(), ..Access::default() };
        let s3 = Login { endpoint: Some("http://127.0.0.1:1".into()), ..login.clone() };
        let dav = Login { user: Some("u".into()), ..login };
        for (address, access, name) in [
            ("s3://bucket/a/b%20c", Access { login: s3.clone(), ..Access::default() }, Some("b c")),
            ("s3://bucket", Access { login: s3, ..Access::default() }, None),
            ("swift://container/a/", objects, Some("a")),
            ("dav:http://127.0.0.1:1/x/y", Access { login: dav.clone(), ..Access::default() }, Some("y")),
            ("dav:http://127.0.0.1:1/x/y/.", Access { login: dav, ..Access::default() }, None),
        ] {
            let place = source_of(address, &access).await.expect(address);
            assert_eq!(place.path.name().filter(|_| !place.members).map(NodeName::as_str), name, "{address}");
        }
        for bad in ["s3://u@bucket/a", "dav:ftp://h/x", "dav:http://dav.example.org/x", "swift://u@c/x"] {
            let error = source_of(bad, &Access::default()).await.map(|_| ()).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}: {error}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_said() {
        let access = Access::default();
        let drive = source_of("https://drive.example.org/ann/a", &access).await.map(|_| ());
        let said = drive.expect_err("a drive asks who it is");
        assert!(said.kind() == ErrorKind::InvalidInput && said.message().contains("--token-file"), "{said}");
        assert_eq!(source_of("/", &access).await.map(|_| ()).expect_err("no name").kind(), ErrorKind::InvalidInput);
        let missing = source_of("/there/is/no/such/folder", &access).await.map(|_| ());
        assert_eq!(missing.expect_err("missing").kind(), ErrorKind::NotFound);
    }
}
