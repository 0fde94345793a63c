//! What an answer that is no success means, in terms a caller can act on. The code of the error is in its XML body; an
//! answer to HEAD has none, so the status alone must do.

use holdfast_base::{Error, ErrorKind};
use http::StatusCode;

/// What the request was about: who is missing when something is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An object.
    Object,
    /// The bucket.
    Bucket,
}

/// An answer that is no success.
#[derive(Debug)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Code and message, if it had them: an answer to HEAD has not.
    pub told: Option<(String, String)>,
    /// Where the bucket is, if it is elsewhere.
    pub region: Option<String>,
    /// Seconds it asks to wait.
    pub retry_after_s: Option<u32>,
    /// The bucket.
    pub bucket: String,
}

/// The error to report.
pub(super) fn error(refusal: &Refusal, meaning: Meaning) -> Error {
    let code = refusal.told.as_ref().map_or("", |(code, _)| code.as_str());
    let bucket = &refusal.bucket;
    let (kind, message) = match (refusal.status.as_u16(), code) {
        (_, "NoSuchBucket") => {
            (ErrorKind::Conflict, format!("there is no bucket {bucket:?}: make it, or mend its name"))
        }
        (404, _) if meaning == Meaning::Bucket => {
            (ErrorKind::Conflict, format!("there is no bucket {bucket:?}: make it, or mend its name"))
        }
        (404, _) => (ErrorKind::NotFound, "there is no such pack".to_owned()),
        (_, "RequestTimeTooSkewed") => {
            (ErrorKind::Forbidden, "the clocks of this machine and of the store differ: set this machine's".to_owned())
        }
        (_, "InvalidAccessKeyId") => (ErrorKind::Forbidden, "the store does not know the access key".to_owned()),
        (_, "SignatureDoesNotMatch") => {
            (ErrorKind::Forbidden, "the secret key is wrong: the store computes another signature".to_owned())
        }
        (_, "ExpiredToken" | "InvalidToken") => (ErrorKind::Forbidden, "the credentials have expired".to_owned()),
        (401 | 403, _) => {
            (ErrorKind::Forbidden, format!("the credentials are not allowed to do this in bucket {bucket:?}"))
        }
        (412, _) => (ErrorKind::AlreadyExists, "it exists already".to_owned()),
        (416, _) => (ErrorKind::Damaged, "it is shorter than it should be".to_owned()),
        (429, _) => {
            let retry_after_s = refusal.retry_after_s.unwrap_or(1);
            (ErrorKind::TooManyRequests { retry_after_s }, "the store asks to slow down".to_owned())
        }
        (507, _) | (_, "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull") => {
            (ErrorKind::NoSpace, "the store is full".to_owned())
        }
        (_, "SlowDown") => (ErrorKind::Unavailable, "the store asks to slow down".to_owned()),
        (_, "BadDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody") => {
            (ErrorKind::Unavailable, "the bytes were changed or cut on their way to the store".to_owned())
        }
        (
            _,
            "RequestTimeout"
            | "ConditionalRequestConflict"
            | "OperationAborted"
            | "InternalError"
            | "ServiceUnavailable",
        )
        | (408 | 409 | 500..=599, _) => {
            (ErrorKind::Unavailable, format!("the store failed ({}{})", refusal.status.as_u16(), with_space(code)))
        }
        (301 | 307 | 308, _) | (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") => {
            (ErrorKind::InvalidInput, elsewhere(bucket, refusal.region.as_deref()))
        }
        (status, _) => (ErrorKind::Internal, format!("the store refuses the request ({status}{})", with_space(code))),
    };
    let error = Error::new(kind, message);
    match &refusal.told {
        Some((code, text)) => error.with_source(format!("{} {code}: {text}", refusal.status)),
        None => error.with_source(refusal.status.to_string()),
    }
}

fn with_space(code: &str) -> String {
    // A code is a word; anything else is not repeated to a person.
    let word = !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if word { format!(" {code}") } else { String::new() }
}

fn elsewhere(bucket: &str, region: Option<&str>) -> String {
    match region {
        Some(region) => format!("bucket {bucket:?} is in the region {region}: say region={region}"),
        None => format!("bucket {bucket:?} is in another region or at another endpoint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, code: &str) -> ErrorKind {
        let status = StatusCode::from_u16(status).expect("a status");
        let told = Some((code.to_owned(), "m".to_owned()));
        let refusal = Refusal { status, told, region: None, retry_after_s: Some(7), bucket: "b".into() };
        error(&refusal, Meaning::Object).kind()
    }

    #[test]
    fn what_may_pass_is_told_from_what_somebody_must_mend() {
        assert_eq!(kind(503, "SlowDown"), ErrorKind::Unavailable);
        assert_eq!(kind(500, ""), ErrorKind::Unavailable);
        assert_eq!(kind(400, "RequestTimeout"), ErrorKind::Unavailable);
        assert_eq!(kind(400, "XAmzContentSHA256Mismatch"), ErrorKind::Unavailable);
        assert_eq!(kind(429, ""), ErrorKind::TooManyRequests { retry_after_s: 7 });
        assert_eq!(kind(403, "SignatureDoesNotMatch"), ErrorKind::Forbidden);
        assert_eq!(kind(403, ""), ErrorKind::Forbidden);
        assert_eq!(kind(404, "NoSuchBucket"), ErrorKind::Conflict);
        assert_eq!(kind(404, "NoSuchKey"), ErrorKind::NotFound);
        assert_eq!(kind(412, "PreconditionFailed"), ErrorKind::AlreadyExists);
        assert_eq!(kind(400, "InvalidArgument"), ErrorKind::Internal);
        assert_eq!(kind(507, ""), ErrorKind::NoSpace);
    }

    #[test]
    fn a_bucket_elsewhere_names_its_region() {
        let refusal = Refusal {
            status: StatusCode::MOVED_PERMANENTLY,
            told: None,
            region: Some("eu-north-1".into()),
            retry_after_s: None,
            bucket: "b".into(),
        };
        assert!(error(&refusal, Meaning::Bucket).message().contains("region=eu-north-1"));
    }
}
