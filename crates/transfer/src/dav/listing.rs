//! What a server tells of files and folders: the answer to PROPFIND (RFC 4918 section 9.1).

use super::call::{Call, Server, refused};
use crate::other::parse_mtime;
use crate::site::{Item, Kind, Version};
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_blob::http::Payload;
use holdfast_blob::xml::walk;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use std::time::UNIX_EPOCH;

/// An answer for some 400,000 members.
const LIST_BYTES_MAX: usize = 256 << 20;
/// Members that are told as refused.
const REFUSED_MAX: usize = 1_000;
/// What is asked for. The last is ours: the time of the content, and the entity tag for which it holds.
const ASKED: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:" xmlns:h="urn:holdfast:transfer"><prop><resourcetype/><getcontentlength/><getetag/><getlastmodified/><h:modified/></prop></propfind>"#;
/// Ends the version of what has no time but the server's own.
const STORED: &str = "\nstored";

/// What the server told of one thing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    href: String,
    folder: bool,
    size: Option<u64>,
    pub(super) etag: Option<String>,
    stored_ns: Option<i64>,
    kept: Option<String>,
}

/// An entity tag without the mark of a weak one: servers take it off once a file is a second old.
pub(super) fn strong(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

impl Told {
    pub(super) fn item(&self, name: NodeName) -> Result<Item> {
        if self.folder {
            let version = Version(String::new());
            return Ok(Item { name, kind: Kind::Folder, size: 0, modified_ns: None, mode: None, version });
        }
        let size = self.size.filter(|size| *size <= FILE_BYTES_MAX);
        let size =
            size.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server tells no size of it that can be"))?;
        let kept_ns = self.kept_ns();
        let mut version = match &self.etag {
            Some(etag) => strong(etag).to_owned(),
            None => format!("size {size} time {}", self.stored_ns.unwrap_or_default()),
        };
        if kept_ns.is_none() {
            version.push_str(STORED);
        }
        let modified_ns = kept_ns.or(self.stored_ns);
        Ok(Item { name, kind: Kind::File, size, modified_ns, mode: None, version: Version(version) })
    }

    /// The time that was kept with the content, if this is still that content.
    fn kept_ns(&self) -> Option<i64> {
        let (time, etag) = self.kept.as_deref()?.split_once(' ')?;
        parse_mtime(time).filter(|_| self.etag.as_deref().map(strong) == Some(etag))
    }

    /// Names of its path on the server.
    fn names(&self) -> Option<Vec<String>> {
        let path = match self.href.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => self.href.as_str(),
        };
        let names = path.split('/').filter(|name| !name.is_empty());
        names.map(|name| Some(percent_decode_str(name).decode_utf8().ok()?.into_owned())).collect()
    }
}

/// The tag of a version, if it has one and it can be made a condition.
pub(super) fn etag_of(version: &Version) -> Option<&str> {
    Some(version.0.strip_suffix(STORED).unwrap_or(&version.0)).filter(|etag| etag.starts_with('"'))
}

/// Whether an item's time is when the server stored it.
pub(super) fn is_stored_time(item: &Item) -> bool {
    item.version.0.ends_with(STORED)
}

fn http_time(text: &str) -> Option<i64> {
    let at = httpdate::parse_http_date(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Reads a `multistatus`. Properties count only in a `propstat` that succeeded.
pub(super) fn parse(xml: &[u8]) -> Result<Vec<Told>> {
    let (mut all, mut told, mut stat, mut good, mut is_list) =
        (Vec::new(), Told::default(), Told::default(), true, false);
    walk(xml, |path, text| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let text = text.trim();
        match path[..] {
            [_, "response", "href"] => text.clone_into(&mut told.href),
            [_, "response", "propstat", "status"] => good = text.split(' ').nth(1) == Some("200"),
            [_, "response", "propstat", "prop", "resourcetype", "collection"] => stat.folder = true,
            [_, "response", "propstat", "prop", "getcontentlength"] => stat.size = text.parse().ok(),
            [_, "response", "propstat", "prop", "getetag"] if !text.is_empty() => stat.etag = Some(text.to_owned()),
            [_, "response", "propstat", "prop", "getlastmodified"] => stat.stored_ns = http_time(text),
            [_, "response", "propstat", "prop", "modified"] if !text.is_empty() => stat.kept = Some(text.to_owned()),
            [_, "response", "propstat"] => {
                let stat = std::mem::take(&mut stat);
                if std::mem::replace(&mut good, true) {
                    told.folder |= stat.folder;
                    told.size = told.size.or(stat.size);
                    told.etag = told.etag.take().or(stat.etag);
                    told.stored_ns = told.stored_ns.or(stat.stored_ns);
                    told.kept = told.kept.take().or(stat.kept);
                }
            }
            [_, "response"] => all.push(std::mem::take(&mut told)),
            [root] => is_list = root == "multistatus",
            _ => {}
        }
        Ok(())
    })?;
    if is_list { Ok(all) } else { Err(Error::damaged("the server's answer is not the list it should be")) }
}

/// Members of a folder, in no order, and what could not be listed.
pub(super) type Members = (Vec<(NodeName, Told)>, Vec<(String, Error)>);

impl Server {
    async fn ask(&self, path: String, depth: &str) -> Result<Option<Vec<Told>>> {
        let body = Payload::from(ASKED.to_owned());
        let call = Call::new("PROPFIND", path)?
            .header("depth", depth)
            .header("content-type", "application/xml; charset=utf-8");
        let reply = self.send(call.body(body)).await?;
        match reply.answer.status {
            StatusCode::MULTI_STATUS => parse(&reply.text(LIST_BYTES_MAX).await?).map(Some),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(refused(reply).await),
        }
    }

    /// What is at a path.
    pub(super) async fn look(&self, path: &DrivePath) -> Result<Option<Told>> {
        let first = match self.ask(super::call::encoded(path, false), "0").await {
            // Some servers know a folder by the slash at its end only.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.ask(super::call::encoded(path, true), "0").await?
            }
            told => told?,
        };
        match first.map(|mut told| (told.len(), told.pop())) {
            None => Ok(None),
            Some((1, told)) => Ok(told),
            Some(_) => Err(Error::damaged("the server told of more than it was asked for")),
        }
    }

    /// Members of a folder.
    pub(super) async fn members(&self, folder: &DrivePath) -> Result<Members> {
        let told = self.ask(super::call::encoded(folder, true), "1").await?;
        members(folder, told.ok_or_else(|| Error::not_found(format!("{folder} is not there")))?)
    }
}

fn members(folder: &DrivePath, told: Vec<Told>) -> Result<Members> {
    let above: Vec<&str> = folder.names().iter().map(NodeName::as_str).collect();
    let (mut members, mut refused) = (Vec::new(), Vec::new());
    for told in told {
        let names = told.names();
        let last = match names.as_deref() {
            Some(names) if names == above => continue,
            Some([names @ .., last]) if names == above => NodeName::new(last),
            _ => Err(Error::damaged("the server listed what was not asked for, or what has no name")),
        };
        match last {
            Ok(name) => members.push((name, told)),
            Err(error) if refused.len() < REFUSED_MAX => refused.push((told.href.chars().take(300).collect(), error)),
            Err(_) => {}
        }
    }
    if members.len() > crate::other::MEMBERS_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("{folder} has more members than can be listed")));
    }
    Ok((members, refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:" xmlns:h="urn:holdfast:transfer">
<D:response><D:href>/a%20b/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
<D:response><D:href>http://h/a%20b/x%2Bz</D:href><D:propstat><D:prop><D:resourcetype/><D:getcontentlength>7</D:getcontentlength>
<D:getetag>W/"t"</D:getetag><D:getlastmodified>Mon, 23 Nov 2026 12:00:00 GMT</D:getlastmodified><h:modified>1.5 "t"</h:modified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
<D:response><D:href>/a%20b/other</D:href><D:propstat><D:prop><D:getcontentlength>7</D:getcontentlength><D:getetag>"u"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
<D:propstat><D:prop><h:modified>1 "u"</h:modified></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>
<D:response><D:href>/a%20b/%2E%2E</D:href></D:response><D:response><D:href>/elsewhere/x</D:href></D:response><D:response><D:href>/a%20b/x%2Fy</D:href></D:response>
</D:multistatus>"#;

    #[test]
    fn members_have_what_succeeded_and_what_is_no_member_is_refused() {
        let (members, refused) =
            members(&DrivePath::parse("a b").expect("a path"), parse(LIST.as_bytes()).expect("reads")).expect("lists");
        let items: Vec<Item> = members.iter().map(|(name, told)| told.item(name.clone()).expect("an item")).collect();
        assert_eq!((items[0].name.as_str(), items[0].size, items[0].modified_ns), ("x+z", 7, Some(1_500_000_000)));
        assert_eq!((etag_of(&items[0].version), is_stored_time(&items[0])), (Some("\"t\""), false));
        assert_eq!((items[1].modified_ns, is_stored_time(&items[1])), (None, true));
        assert_eq!(refused.len(), 3, "{refused:?}");
    }

    #[test]
    fn a_time_that_was_kept_of_another_content_is_not_believed() {
        let told =
            Told { size: Some(1), etag: Some("\"new\"".into()), kept: Some("1 \"old\"".into()), ..Told::default() };
        assert_eq!(told.item(NodeName::new("f").expect("a name")).expect("an item").modified_ns, None);
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        for text in ["", "<html/>", "<!DOCTYPE x [<!ENTITY y 'z'>]><multistatus>&y;</multistatus>", "<multistatus>"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
