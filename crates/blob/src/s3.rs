//! Packs in any S3-compatible service.
//!
//! The requests are ours, over the shared HTTP client, signed by Signature Version 4. What they mean is in
//! [`crate::object`]; this module says it in S3's words (Amazon S3 API Reference, 2006-03-01):
//!
//! | what | request |
//! |---|---|
//! | a pack that fits a part | `PutObject`, `If-None-Match: *` |
//! | a larger one | `CreateMultipartUpload`, `UploadPart`…, `CompleteMultipartUpload` with `If-None-Match: *` |
//! | reads, lengths | `GetObject` with a range, `HeadObject` |
//! | removal | `DeleteObject`, `DeleteObjects` for several |
//! | lists | `ListObjectsV2` with `start-after` |
//! | the sweep | `ListMultipartUploads`, `AbortMultipartUpload` |
//!
//! **Sums**: bytes go with their MD5 (`Content-MD5`), so a service refuses what was changed on the way. The SHA-256 that is
//! part of a signature would do as well, but not every service verifies it (SeaweedFS 4.48 does not: a test changes a byte); it is sent where the
//! connection is plain, since S3 insists on it there, and left out over TLS.
//!
//! **Why not the `object_store` crate**: its errors hide the status of an answer behind a private type, so a service that
//! asks to slow down looks like one that is broken; it cannot ask for a free name when parts are put together; and it
//! brings a second HTTP client and some thirty crates. What is missed are its credentials of cloud machines: here they come
//! from a file (read again when they are refused, so another program may renew them) or the environment.
//!
//! **Limits**: no server-side encryption headers (packs are sealed already), no storage classes, no requester pays.

mod call;
mod credentials;
mod failure;
mod large;
mod options;
mod sign;
mod xml;

pub use call::{Call, S3};
pub use credentials::{CredentialSource, Credentials};
pub use failure::Refusal;
pub use options::{Conditional, S3Options};
pub use xml::{error_of, parse_list, text_of};

use crate::StoreRoom;
use crate::object::{Body, Keys, ObjectStore, Objects, Page, PartSent, Stat};
use async_trait::async_trait;
use failure::Meaning;
use holdfast_base::{Error, ErrorKind, Result};
use http::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `DeleteObjects` takes this many at most.
const DELETE_MAX: usize = 1_000;

/// A page of a list of 1,000 keys of up to 1,024 bytes each, escaped, and its markup, several times over.
const LIST_BYTES_MAX: usize = 8 << 20;

/// The header that carries a pack's mark.
const MARK_HEADER: &str = "x-amz-meta-holdfast-mark";

/// An S3 service, seen as objects.
struct S3Objects {
    s3: S3,
    /// Whether puts are conditional; found out at the start if the options leave it open.
    conditional: AtomicBool,
}

/// Opens a store of packs in a bucket, which must exist: asks for a list, so that a wrong name or wrong credentials are
/// known at the start, and finds out whether the service knows conditional puts if the options leave it open.
pub async fn open(options: &S3Options) -> Result<ObjectStore> {
    let keys = Keys::below(&options.prefix)?;
    let objects =
        S3Objects { s3: S3::new(options)?, conditional: AtomicBool::new(options.conditional != Conditional::Off) };
    objects.page(keys.prefix(), None, 1).await.map_err(|error| error.context("opening the store"))?;
    if options.conditional == Conditional::Auto {
        let known = objects.knows_conditional_puts(keys.prefix()).await;
        let known = known.map_err(|error| error.context("opening the store: trying a conditional put"))?;
        objects.conditional.store(known, Ordering::Relaxed);
    }
    Ok(ObjectStore::new(Arc::new(objects), keys, options.objects))
}

impl S3Objects {
    /// Puts one small object twice. A service that knows conditions refuses the second.
    async fn knows_conditional_puts(&self, prefix: &str) -> Result<bool> {
        let key = format!("{prefix}probe-{:032x}", rand::random::<u128>());
        let body = || Body::of(Vec::new(), self.s3.wants_sha256());
        self.create(&key, body(), "probe").await?;
        let second = self.create(&key, body(), "probe").await;
        self.delete(&[key]).await?;
        match second {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
            Ok(()) => {
                tracing::warn!("this service ignores If-None-Match: names are asked for before each put instead");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// For services that know no conditions.
    async fn check_free(&self, key: &str) -> Result<()> {
        match self.stat(key).await? {
            Some(_) => Err(Error::new(ErrorKind::AlreadyExists, "it exists already")),
            None => Ok(()),
        }
    }

    async fn delete_one(&self, key: &str) -> Result<()> {
        let answer = self.s3.send(Call::new(Method::DELETE).key(key)).await?;
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT => answer.finish().await,
            _ => match self.s3.failure(answer, Meaning::Object).await {
                error if error.kind() == ErrorKind::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn delete_batch(&self, keys: &[String]) -> Result<()> {
        let request = xml::delete_request(keys);
        let md5 = xml::content_md5(request.as_bytes());
        let call = Call::new(Method::POST).query("delete", "").header("content-md5", md5).text(request);
        let answer = self.s3.send(call).await?;
        match answer.status {
            StatusCode::OK => xml::check_deleted(&answer.text(LIST_BYTES_MAX).await?),
            StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED => {
                answer.finish().await?;
                for key in keys {
                    self.delete_one(key).await?;
                }
                Ok(())
            }
            _ => Err(self.s3.failure(answer, Meaning::Bucket).await),
        }
    }
}

#[async_trait]
impl Objects for S3Objects {
    fn kind(&self) -> &'static str {
        "s3"
    }

    fn wants_sha256(&self) -> bool {
        self.s3.wants_sha256()
    }

    async fn create(&self, key: &str, body: Body, mark: &str) -> Result<()> {
        let mut call = Call::new(Method::PUT).key(key).header(MARK_HEADER, mark.to_owned()).body(body);
        if self.conditional.load(Ordering::Relaxed) {
            call = call.header("if-none-match", "*".to_owned());
        } else {
            self.check_free(key).await?;
        }
        let answer = self.s3.send(call).await?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED => answer.finish().await,
            _ => Err(self.s3.failure(answer, Meaning::Object).await),
        }
    }

    async fn stat(&self, key: &str) -> Result<Option<Stat>> {
        let answer = self.s3.send(Call::new(Method::HEAD).key(key)).await?;
        match answer.status {
            StatusCode::OK => {
                let bytes = answer.number("content-length");
                let bytes = bytes.ok_or_else(|| Error::damaged("the service tells no length of an object"))?;
                Ok(Some(Stat { bytes, mark: answer.header(MARK_HEADER).map(ToOwned::to_owned) }))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.s3.failure(answer, Meaning::Object).await),
        }
    }

    async fn read(&self, key: &str, offset: u64, len: usize, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let range = format!("bytes={offset}-{}", offset + (len as u64 - 1));
        let answer = self.s3.send(Call::new(Method::GET).key(key).header("range", range)).await?;
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                crate::object::check_range(answer.header("content-range"), offset, len)?;
                answer.exactly(len, buffer).await
            }
            // The whole object, from a service that thinks a range of everything is none.
            StatusCode::OK if offset == 0 && answer.number("content-length") == Some(len as u64) => {
                answer.exactly(len, buffer).await
            }
            StatusCode::OK => Err(Error::damaged(format!("the service has no {len} bytes at offset {offset} of it"))),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                Err(Error::damaged(format!("it has no {len} bytes at offset {offset}")))
            }
            _ => Err(self.s3.failure(answer, Meaning::Object).await),
        }
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        if let [key] = keys {
            return self.delete_one(key).await;
        }
        for keys in keys.chunks(DELETE_MAX) {
            self.delete_batch(keys).await?;
        }
        Ok(())
    }

    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let mut call = Call::new(Method::GET).query("list-type", "2").query("max-keys", &limit.to_string());
        call = call.query("prefix", prefix);
        if let Some(after) = after {
            call = call.query("start-after", after);
        }
        let answer = self.s3.send(call).await?;
        match answer.status {
            StatusCode::OK => parse_list(&answer.text(LIST_BYTES_MAX).await?),
            _ => Err(self.s3.failure(answer, Meaning::Bucket).await),
        }
    }

    async fn begin_large(&self, key: &str, mark: &str) -> Result<String> {
        self.begin_multipart(key, mark).await
    }

    async fn send_part(&self, key: &str, large: &str, number: u32, body: Body) -> Result<PartSent> {
        self.upload_part(key, large, number, body).await
    }

    async fn complete(&self, key: &str, large: &str, parts: &[PartSent], _mark: &str) -> Result<()> {
        // Always: parts are large, so the question costs little, and not every service that knows a condition on a put
        // knows it here.
        self.check_free(key).await?;
        self.complete_multipart(key, large, parts).await
    }

    async fn abandon(&self, key: &str, large: &str) -> Result<()> {
        self.abort_multipart(key, large).await
    }

    async fn sweep(&self, prefix: &str, older_than: Duration) -> Result<u64> {
        self.sweep_multipart(prefix, older_than).await
    }

    async fn room(&self) -> Result<Option<StoreRoom>> {
        Ok(None)
    }
}
