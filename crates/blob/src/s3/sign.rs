//! Signature Version 4 (Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header").

use super::Credentials;
use crate::object::hex;
use aws_lc_rs::{digest, hmac};
use time::OffsetDateTime;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request as it is signed.
pub(super) struct Canonical<'a> {
    pub(super) method: &'a str,
    /// Percent-encoded.
    pub(super) path: &'a str,
    /// Percent-encoded, in the order of names.
    pub(super) query: &'a str,
    /// Names in lower case, in order, with values.
    pub(super) headers: &'a [(&'a str, String)],
    /// SHA-256 of the body.
    pub(super) sum: &'a str,
}

/// The moment of a request, in S3's format.
pub(super) fn timestamp(now: OffsetDateTime) -> String {
    let (date, time) = (now.date(), now.time());
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// The value of the header `authorization`.
pub(super) fn authorization(
    request: &Canonical<'_>,
    credentials: &Credentials,
    region: &str,
    timestamp: &str,
) -> String {
    let date = &timestamp[..8];
    let scope = format!("{date}/{region}/s3/aws4_request");
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut text = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in request.headers {
        text.push_str(name);
        text.push(':');
        text.push_str(value.trim());
        text.push('\n');
    }
    text.extend(["\n", &names, "\n", request.sum]);
    let sum = hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{timestamp}\n{scope}\n{sum}");
    let secret = zeroize::Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.reveal()));
    let mut key = tag(secret.as_bytes(), date);
    for step in [region, "s3", "aws4_request"] {
        key = tag(key.as_ref(), step);
    }
    let signature = hex(tag(key.as_ref(), &to_sign).as_ref());
    format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.access_key_id
    )
}

fn tag(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn credentials() -> Credentials {
        // The example keys of the reference.
        Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            session_token: None,
        }
    }

    /// The examples "GET Object" and "Get Bucket (List Objects)" of the reference.
    #[test]
    fn the_examples_of_the_reference_have_its_signatures() {
        let header = |name: &'static str, value: &str| (name, value.to_owned());
        let host = header("host", "examplebucket.s3.amazonaws.com");
        let (sum, date) = (header("x-amz-content-sha256", EMPTY), header("x-amz-date", "20130524T000000Z"));
        let object = [host.clone(), header("range", "bytes=0-9"), sum.clone(), date.clone()];
        let get = Canonical { method: "GET", path: "/test.txt", query: "", headers: &object, sum: EMPTY };
        let signed = authorization(&get, &credentials(), "us-east-1", "20130524T000000Z");
        assert!(
            signed.ends_with("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            "{signed}"
        );
        assert!(signed.contains("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"));
        let bucket = [host, sum, date];
        let list = Canonical { method: "GET", path: "/", query: "max-keys=2&prefix=J", headers: &bucket, sum: EMPTY };
        let signed = authorization(&list, &credentials(), "us-east-1", "20130524T000000Z");
        assert!(
            signed.ends_with("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
            "{signed}"
        );
    }

    #[test]
    fn a_moment_has_two_digits_everywhere() {
        let moment = time::macros::datetime!(2026-01-02 03:04:05 UTC);
        assert_eq!(timestamp(moment), "20260102T030405Z");
    }
}
