//! Multipart uploads. An answer 200 to the last request may still hold an error: S3 keeps the connection alive while it
//! puts the parts together and says at the end how it went.

use super::call::Call;
use super::failure::Meaning;
use super::{LIST_BYTES_MAX, MARK_HEADER, S3Objects, xml};
use crate::http::ERROR_TEXT_BYTES_MAX;
use crate::object::{Body, PartSent};
use holdfast_base::{Error, ErrorKind, Result};
use http::{Method, StatusCode};
use std::sync::atomic::Ordering;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Pages of a list of uploads that one sweep looks at; the rest is for the next.
const SWEEP_PAGES_MAX: usize = 100;

impl S3Objects {
    pub(super) async fn begin_multipart(&self, key: &str, mark: &str) -> Result<String> {
        let call = Call::new(Method::POST).key(key).query("uploads", "").header(MARK_HEADER, mark.to_owned());
        let answer = self.s3.send(call).await?;
        if answer.status != StatusCode::OK {
            return Err(self.s3.failure(answer, Meaning::Bucket).await);
        }
        let text = answer.text(ERROR_TEXT_BYTES_MAX).await?;
        let id = xml::text_of(&text, &["InitiateMultipartUploadResult", "UploadId"])?;
        id.filter(|id| !id.is_empty()).ok_or_else(|| Error::damaged("the store began an upload without naming it"))
    }

    pub(super) async fn upload_part(&self, key: &str, large: &str, number: u32, body: Body) -> Result<PartSent> {
        let bytes = body.payload.bytes();
        let call = Call::new(Method::PUT)
            .key(key)
            .query("partNumber", &number.to_string())
            .query("uploadId", large)
            .body(body);
        let answer = self.s3.send(call).await?;
        if answer.status != StatusCode::OK {
            return Err(self.s3.failure(answer, Meaning::Object).await);
        }
        let tag = answer.header("etag").map(ToOwned::to_owned);
        let tag = tag.ok_or_else(|| Error::damaged("the store took a part without naming it"))?;
        answer.finish().await?;
        Ok(PartSent { number, bytes, tag })
    }

    pub(super) async fn complete_multipart(&self, key: &str, large: &str, parts: &[PartSent]) -> Result<()> {
        let mut call = Call::new(Method::POST).key(key).query("uploadId", large).text(xml::complete_request(parts));
        if self.conditional.load(Ordering::Relaxed) {
            call = call.header("if-none-match", "*".to_owned());
        }
        let answer = self.s3.send(call).await?;
        if answer.status != StatusCode::OK {
            return Err(self.s3.failure(answer, Meaning::Object).await);
        }
        let text = answer.text(ERROR_TEXT_BYTES_MAX).await?;
        match xml::error_of(&text) {
            None if xml::text_of(&text, &["CompleteMultipartUploadResult", "ETag"])?.is_some() => Ok(()),
            None => Err(Error::damaged("the store does not say that it has put the parts together")),
            Some((code, message)) => {
                let error = Error::unavailable("the store failed while it put the parts together");
                Err(error.with_source(format!("{code}: {message}")))
            }
        }
    }

    pub(super) async fn abort_multipart(&self, key: &str, large: &str) -> Result<()> {
        let answer = self.s3.send(Call::new(Method::DELETE).key(key).query("uploadId", large)).await?;
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT => answer.finish().await,
            _ => match self.s3.failure(answer, Meaning::Object).await {
                error if error.kind() == ErrorKind::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Aborts uploads begun before `older_than`, below this store's prefix.
    pub(super) async fn sweep_multipart(&self, prefix: &str, older_than: Duration) -> Result<u64> {
        let before = OffsetDateTime::now_utc() - older_than;
        let (mut swept, mut markers) = (0, None::<(String, String)>);
        for _ in 0..SWEEP_PAGES_MAX {
            let mut call = Call::new(Method::GET).query("uploads", "").query("prefix", prefix);
            if let Some((key, id)) = &markers {
                call = call.query("key-marker", key).query("upload-id-marker", id);
            }
            let answer = self.s3.send(call).await?;
            if answer.status != StatusCode::OK {
                return Err(self.s3.failure(answer, Meaning::Bucket).await);
            }
            let (uploads, more) = xml::parse_uploads(&answer.text(LIST_BYTES_MAX).await?)?;
            markers = uploads.last().map(|last| (last.key.clone(), last.id.clone()));
            for upload in uploads.iter().filter(|upload| upload.key.starts_with(prefix)) {
                // One whose age is not known is left alone.
                let old = OffsetDateTime::parse(&upload.initiated, &Rfc3339).is_ok_and(|begun| begun <= before);
                if old && !upload.id.is_empty() {
                    self.abort_multipart(&upload.key, &upload.id).await?;
                    swept += 1;
                }
            }
            if !more || markers.is_none() {
                break;
            }
        }
        Ok(swept)
    }
}
