//! A file of a web server, by its address.

use super::answer::{Told, refused};
use super::client::Client;
use super::content::{Ranges, Whole};
use super::digests;
use crate::site::{Content, Item, Kind, Version};
use crate::sum::Sum;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{ByteRange, Error, ErrorKind, NodeName, Result};
use http::{StatusCode, Uri};
use std::sync::Arc;

/// Bytes of a file with a sum in it.
const SIDE_BYTES_MAX: usize = 64 << 10;

/// A file that may be there.
#[derive(Clone)]
pub(super) struct File {
    pub(super) client: Arc<Client>,
    pub(super) url: Uri,
    /// Stands for the version of what has none.
    pub(super) run: Arc<str>,
}

impl File {
    pub(super) fn version(&self, told: &Told) -> Version {
        Version(told.version().unwrap_or_else(|| format!("{} {}", told.size, self.run)))
    }

    /// What the server says of the file, found out with a byte of it: not every server answers HEAD alike. None if it is not there.
    pub(super) async fn ask(&self) -> Result<Option<Told>> {
        let answer = self.client.get(&self.url, Some(ByteRange { start: 0, end: 1 }), None).await?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status => Told::of(status, answer.headers()).map(Some),
        }
    }

    /// The same as something in a folder.
    pub(super) fn item(&self, name: NodeName, told: &Told) -> Item {
        let (size, modified_ns, version) = (told.size, told.modified_ns(), self.version(told));
        Item { name, kind: Kind::File, size, modified_ns, mode: None, version }
    }

    /// Opens it in the version that was listed. `beside` is a sum that a file beside it tells.
    pub(super) async fn open(self, item: &Item, beside: Option<Sum>) -> Result<Arc<dyn Content>> {
        let (version, run) = (item.version.clone(), Arc::clone(&self.run));
        let same = |told: &Told| told.version().unwrap_or_else(|| format!("{} {run}", told.size)) == version.0;
        self.open_if(item.size, beside, same).await
    }

    /// Opens it if it has a size and is as wanted. A small one is asked for at once.
    pub(super) async fn open_if(
        self,
        size: u64,
        beside: Option<Sum>,
        wanted: impl Fn(&Told) -> bool,
    ) -> Result<Arc<dyn Content>> {
        let gone = || Error::not_found(format!("{} is not there", self.url.path()));
        let check = |told: &Told| {
            if told.size == size && wanted(told) {
                return Ok(());
            }
            Err(Error::new(ErrorKind::PreconditionFailed, "the file changed since it was listed"))
        };
        if size > BLOCK_BYTES as u64 {
            let mut told = self.ask().await?.ok_or_else(gone)?;
            check(&told)?;
            told.sum = beside.or(told.sum);
            return Ok(if told.ranges {
                Arc::new(Ranges { file: self, told })
            } else {
                Arc::new(Whole::new(self, told))
            });
        }
        let answer = self.client.get(&self.url, None, None).await?;
        let mut told = match answer.status() {
            StatusCode::OK => Told::of(StatusCode::OK, answer.headers())?,
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(gone()),
            status => return Err(refused(status, answer.headers())),
        };
        check(&told)?;
        told.sum = beside.or(told.sum);
        Ok(Arc::new(Whole::begun(self, told, answer.into_body())))
    }

    /// The sum in a file `NAME.sha256` beside it, if there is one. What cannot be asked for or read tells nothing.
    pub(super) async fn side(&self) -> Option<Sum> {
        if self.url.query().is_some() {
            return None;
        }
        let name = percent_encoding::percent_decode_str(self.url.path().rsplit('/').next()?).decode_utf8().ok()?;
        let url: Uri = format!("{}.sha256", self.url).parse().ok()?;
        let page = self.client.page(&url, SIDE_BYTES_MAX).await.ok()??;
        digests::side_file(&page.bytes, &name)
    }
}
