//! A bucket of an S3 service as a place with files: `s3://BUCKET/PREFIX`.
//!
//! | what | how |
//! |---|---|
//! | folders | what keys have in common up to a slash; one with nothing in it is an object `NAME/` of no bytes, made when all else is there |
//! | listings | `ListObjectsV2` with a delimiter, gathered and sorted by name |
//! | times | in the metadata `mtime`, as rclone keeps them. Listings do not tell metadata, so a HEAD does, for what has the same size on both sides |
//! | reading | parts side by side, with `If-Match`; an entity tag that is an MD5 is held against what arrived |
//! | taking in | one PUT, or a multipart upload, on the condition that what is there is what was listed |
//! | links, permissions | there are none |
//!
//! Requests and signatures are those of [`holdfast_blob::s3`].

mod bucket;
mod content;
mod failure;
mod journal;
mod large;
mod listing;
mod parts;
mod small;
#[cfg(test)]
mod tests;

use crate::other::keys::{MadeFolders, key_of, prefix_of};
use crate::other::wire::{Moving, Places, must_be_private};
use crate::other::{KeptListings, Login, SiteUrl};
use crate::site::{Content, Incoming, Item, Kind, Listed, Site, Version, Wanted};
use async_trait::async_trait;
use bucket::{Bucket, There, version_of};
use bytes::Bytes;
use content::ObjectContent;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use holdfast_blob::Secret;
use holdfast_blob::http::Times;
use holdfast_blob::object::Body;
use holdfast_blob::s3::{CredentialSource, Credentials, S3, S3Options};
use large::{Large, PART_BYTES};
use listing::folder_item;
use small::Small;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Objects of folders that are made side by side.
const SIDE_BY_SIDE: usize = 16;

/// A bucket.
pub struct S3Site {
    inner: Arc<Inner>,
    kept: KeptListings,
    made: MadeFolders,
    /// Whether old uploads were looked for.
    swept: OnceCell<()>,
}

struct Inner {
    bucket: Bucket,
    address: String,
    /// Where it is written down what is under way.
    journals: Option<PathBuf>,
}

impl S3Site {
    /// The bucket of an address, and the path in it; the service is not asked yet.
    pub fn new(url: &SiteUrl, login: &Login) -> Result<Self> {
        if url.user.is_some() || url.port.is_some() {
            return Err(Error::invalid("s3://BUCKET/PREFIX has no user and no port: see --user and --endpoint"));
        }
        let mut options = S3Options::new(&url.host);
        if let Some(endpoint) = &login.endpoint {
            let uri = endpoint.parse().map_err(|_| Error::invalid(format!("--endpoint {endpoint} is no address")))?;
            must_be_private(&uri)?;
            options.endpoint = Some(endpoint.trim_end_matches('/').to_owned());
        }
        if let Some(region) = &login.region {
            options.region.clone_from(region);
        }
        options.ca_file.clone_from(&login.ca);
        options.times = Times::unlimited();
        options.credentials = credentials(login)?;
        let place = options.endpoint.clone().unwrap_or_else(|| "s3:/".to_owned());
        let address = format!("{place}/{}", url.host);
        let bucket = Bucket::new(S3::new(&options)?, Places::new(login.connections));
        let inner = Arc::new(Inner { bucket, address, journals: journal::usual_folder() });
        Ok(Self { inner, kept: KeptListings::default(), made: MadeFolders::default(), swept: OnceCell::new() })
    }

    /// Makes the object of a folder.
    async fn mark(&self, folder: &DrivePath) -> Result<()> {
        let key = key_of(folder)? + "/";
        let bucket = &self.inner.bucket;
        let body = body_of(bucket, Vec::new(), &Moving::default()).await?;
        match bucket.put(&key, &There::Nothing, body, None).await {
            Err(error) if error.kind() != ErrorKind::PreconditionFailed => Err(error),
            _ => Ok(()),
        }
    }

    async fn remove_folder(&self, path: &DrivePath) -> Result<()> {
        let key = key_of(path)? + "/";
        self.made.forget(path);
        if self.inner.bucket.page(&key, None, 2).await?.has_other_than(&key) {
            return Err(Error::conflict(format!("{path} has something in it")));
        }
        self.inner.bucket.delete(&key).await
    }
}

fn credentials(login: &Login) -> Result<CredentialSource> {
    match (&login.user, &login.password) {
        (Some(id), Some(secret)) => Ok(CredentialSource::Given(Credentials {
            access_key_id: id.clone(),
            secret_access_key: Secret::new(secret.expose()),
            session_token: None,
        })),
        (None, None) => {
            let known = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
            if known("AWS_ACCESS_KEY_ID") && known("AWS_SECRET_ACCESS_KEY") {
                return Ok(CredentialSource::Environment);
            }
            let what = "an access key is missing: --user ID and --password-file FILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment";
            Err(Error::invalid(what))
        }
        _ => Err(Error::invalid("--user (the access key's id) and --password-file (its secret) belong together")),
    }
}

/// Bytes with their sums, which are made on a thread.
async fn body_of(bucket: &Bucket, parts: Vec<Bytes>, moving: &Moving) -> Result<Body> {
    let sha256 = bucket.s3.wants_sha256();
    let summed = tokio::task::spawn_blocking(move || Body::of(parts, sha256));
    let body = summed.await.map_err(|error| Error::internal("a thread was lost").with_source(error))?;
    Ok(Body { payload: body.payload.watched(moving.watch()), ..body })
}

/// The item of what was just stored.
fn stored(name: NodeName, wanted: &Wanted, etag: Option<&str>) -> Item {
    let Wanted { size, modified_ns, .. } = *wanted;
    let version: Version = version_of(etag, size, modified_ns);
    Item { name, kind: Kind::File, size, modified_ns, mode: None, version }
}

fn name_of(path: &DrivePath) -> Result<NodeName> {
    path.name().cloned().ok_or_else(|| Error::new(ErrorKind::WrongKind, "a bucket cannot be a file"))
}

#[async_trait]
impl Site for S3Site {
    fn address(&self) -> String {
        self.inner.address.clone()
    }

    async fn look(&self, path: &DrivePath) -> Result<Option<Item>> {
        let (bucket, prefix) = (&self.inner.bucket, prefix_of(path)?);
        let Some(name) = path.name() else {
            bucket.page("", None, 1).await?;
            return Ok(Some(folder_item(NodeName::new("bucket")?)));
        };
        let key = key_of(path)?;
        // What a list says is wrong is said better than what a HEAD can.
        let (page, head) = tokio::join!(bucket.page(&prefix, None, 1), bucket.head(&key));
        if !page?.is_empty() || self.made.has(path) {
            return Ok(Some(folder_item(name.clone())));
        }
        head?.map(|head| head.item(name.clone())).transpose()
    }

    async fn list(&self, folder: &DrivePath, after: Option<&NodeName>) -> Result<Listed> {
        if let Some(next) = self.kept.next(folder, after) {
            return Ok(next);
        }
        let members = self.inner.bucket.members(&prefix_of(folder)?).await?;
        self.kept.begin(folder, after, members.items, members.refused)
    }

    async fn exact(&self, path: &DrivePath, item: &Item) -> Result<Item> {
        match self.inner.bucket.head(&key_of(path)?).await? {
            Some(head) => head.item(item.name.clone()),
            None => Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not there any more"))),
        }
    }

    async fn open(&self, path: &DrivePath, item: &Item) -> Result<Arc<dyn Content>> {
        let (inner, key) = (Arc::clone(&self.inner), key_of(path)?);
        Ok(Arc::new(ObjectContent::new(inner, key, item.version.clone(), item.size)))
    }

    async fn make_folder(&self, path: &DrivePath) -> Result<()> {
        if path.is_root() {
            return self.look(path).await.map(drop);
        }
        if self.made.remember(path) { Ok(()) } else { self.mark(path).await }
    }

    async fn make_link(&self, _path: &DrivePath, _to: &str, _replaces: Option<&Item>) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "there are no symbolic links in a bucket: leave them out with --links skip",
        ))
    }

    async fn begin(&self, wanted: &Wanted) -> Result<Box<dyn Incoming>> {
        let (key, name) = (key_of(&wanted.path)?, name_of(&wanted.path)?);
        self.made.filled(&wanted.path);
        let inner = Arc::clone(&self.inner);
        if wanted.size <= PART_BYTES {
            return Ok(Box::new(Small::new(inner, key, name, wanted)));
        }
        self.swept.get_or_init(|| large::abort_old(&self.inner)).await;
        Ok(Box::new(Large::begin(inner, &key, name, wanted).await?))
    }

    async fn remove(&self, path: &DrivePath, item: &Item) -> Result<()> {
        if item.kind == Kind::Folder {
            return self.remove_folder(path).await;
        }
        let key = key_of(path)?;
        match self.inner.bucket.head(&key).await? {
            Some(head) if head.version() == item.version => self.inner.bucket.delete(&key).await,
            Some(_) => {
                Err(Error::new(ErrorKind::PreconditionFailed, format!("{path} is not what was listed any more")))
            }
            None => Ok(()),
        }
    }

    async fn settle(&self) -> Result<()> {
        let marks = stream::iter(self.made.empty()).map(|folder| async move {
            self.mark(&folder).await?;
            self.made.forget(&folder);
            Ok(())
        });
        marks.buffer_unordered(SIDE_BY_SIDE).try_collect().await
    }
}
