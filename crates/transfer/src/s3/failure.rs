//! What a service's refusal means for a transfer.

use holdfast_base::{Error, ErrorKind};
use holdfast_blob::s3::Refusal;

/// What a request was about: what is missing when something is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Object,
    Bucket,
}

/// Codes that say who asks is not known.
const UNKNOWN: [&str; 6] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "MissingSecurityHeader",
];
/// Codes of what may go by itself.
const PASSING: [&str; 9] = [
    "SlowDown",
    "RequestTimeout",
    "ConditionalRequestConflict",
    "OperationAborted",
    "InternalError",
    "ServiceUnavailable",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "IncompleteBody",
];
const FULL: [&str; 4] = ["QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "QuotaLimitExceeded"];

pub(super) fn error(refusal: &Refusal, about: About) -> Error {
    let (status, bucket) = (refusal.status.as_u16(), &refusal.bucket);
    let code = refusal.told.as_ref().map_or("", |(code, _)| code.as_str());
    let (kind, message) = match status {
        _ if code == "NoSuchBucket" || (status == 404 && about == About::Bucket) => {
            (ErrorKind::NotFound, format!("there is no bucket {bucket:?}: make it, or mend its name"))
        }
        404 => (ErrorKind::NotFound, "there is no such object".to_owned()),
        412 | 416 => (ErrorKind::PreconditionFailed, "the object is not what it was".to_owned()),
        _ if code == "RequestTimeTooSkewed" => (
            ErrorKind::Forbidden,
            "the clocks of this machine and of the service differ: set this machine's".to_owned(),
        ),
        401 => (ErrorKind::Unauthenticated, "the service does not accept the access key".to_owned()),
        _ if UNKNOWN.contains(&code) => {
            (ErrorKind::Unauthenticated, format!("the service does not accept the access key or its secret ({code})"))
        }
        301 | 302 | 307 | 308 => (ErrorKind::InvalidInput, elsewhere(refusal)),
        _ if matches!(code, "AuthorizationHeaderMalformed" | "PermanentRedirect") => {
            (ErrorKind::InvalidInput, elsewhere(refusal))
        }
        403 => (ErrorKind::Forbidden, format!("the access key is not allowed to do this in bucket {bucket:?}")),
        429 => {
            let retry_after_s = refusal.retry_after_s.unwrap_or(1);
            (ErrorKind::TooManyRequests { retry_after_s }, "the service asks to slow down".to_owned())
        }
        501 => (ErrorKind::Unsupported, format!("the service cannot do this{}", with_space(code))),
        _ if status == 507 || FULL.contains(&code) => (ErrorKind::NoSpace, "the bucket is full".to_owned()),
        _ if code == "EntityTooLarge" => {
            (ErrorKind::TooLarge, "the service takes no object as large as this".to_owned())
        }
        408 | 409 | 500..=599 => (ErrorKind::Unavailable, format!("the service failed ({status}{})", with_space(code))),
        _ if PASSING.contains(&code) => (ErrorKind::Unavailable, format!("the service failed ({status} {code})")),
        _ => (ErrorKind::Unsupported, format!("the service refuses the request ({status}{})", with_space(code))),
    };
    let error = Error::new(kind, message);
    match &refusal.told {
        Some((code, text)) => error.with_source(format!("{} {code}: {text}", refusal.status)),
        None => error.with_source(refusal.status.to_string()),
    }
}

/// A code is a word; anything else is not repeated to a person.
fn with_space(code: &str) -> String {
    let word = !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if word { format!(" {code}") } else { String::new() }
}

fn elsewhere(refusal: &Refusal) -> String {
    match &refusal.region {
        Some(region) => format!("bucket {:?} is in the region {region}: say --region {region}", refusal.bucket),
        None => format!(
            "bucket {:?} is in another region or at another endpoint: see --region and --endpoint",
            refusal.bucket
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn kind(status: u16, code: &str) -> ErrorKind {
        let told = (!code.is_empty()).then(|| (code.to_owned(), "m".to_owned()));
        let status = StatusCode::from_u16(status).expect("a status");
        let refusal = Refusal { status, told, region: None, retry_after_s: Some(7), bucket: "b".into() };
        error(&refusal, About::Object).kind()
    }

    #[test]
    fn what_may_go_by_itself_is_told_from_what_ends_a_file_and_what_ends_all() {
        for (status, code) in [(503, "SlowDown"), (500, ""), (400, "RequestTimeout"), (400, "BadDigest"), (409, "")] {
            assert_eq!(kind(status, code), ErrorKind::Unavailable, "{status} {code}");
        }
        assert_eq!(kind(429, ""), ErrorKind::TooManyRequests { retry_after_s: 7 });
        for (status, code) in
            [(403, "InvalidAccessKeyId"), (403, "SignatureDoesNotMatch"), (401, ""), (400, "ExpiredToken")]
        {
            assert_eq!(kind(status, code), ErrorKind::Unauthenticated, "{status} {code}");
        }
        assert_eq!(kind(403, "AccessDenied"), ErrorKind::Forbidden);
        assert_eq!(kind(404, "NoSuchBucket"), ErrorKind::NotFound);
        assert_eq!(kind(412, "PreconditionFailed"), ErrorKind::PreconditionFailed);
        assert_eq!(kind(501, "NotImplemented"), ErrorKind::Unsupported);
        assert_eq!(kind(507, ""), ErrorKind::NoSpace);
        assert_eq!(kind(301, "PermanentRedirect"), ErrorKind::InvalidInput);
    }
}
