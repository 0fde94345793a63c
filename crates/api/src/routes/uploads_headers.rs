//! The headers and statuses that tus has besides those of every route, for the description.

#![expect(dead_code, reason = "a description only: crate::tus reads the headers")]

use crate::problem::Problem;
use utoipa::{IntoParams, IntoResponses};

/// What every request of tus says.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct TusHeaders {
    /// The protocol's version: `1.0.0`. Another, or none, is 412.
    #[param(rename = "Tus-Resumable")]
    version: String,
}

/// What the beginning of an upload says.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct CreationHeaders {
    /// Bytes it is to have: they are reserved.
    #[param(rename = "Upload-Length")]
    length: u64,
    /// What it is to become: keys with values in Base64, separated by commas: `space`, `path`, `filename`, `modified_ms`, `conflict`
    /// (`fail`, `replace`, `keep-both`), `if_match` and `tags`, one a line.
    #[param(rename = "Upload-Metadata")]
    metadata: Option<String>,
    /// Of the first part: `sha1`, `sha256`, `md5` or `blake3`, a blank, and the digest in Base64.
    #[param(rename = "Upload-Checksum")]
    checksum: Option<String>,
}

/// What a part says.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct PartHeaders {
    /// Where it begins: where the upload stands.
    #[param(rename = "Upload-Offset")]
    offset: u64,
    /// Of this part: `sha1`, `sha256`, `md5` or `blake3`, a blank, and the digest in Base64.
    #[param(rename = "Upload-Checksum")]
    checksum: Option<String>,
}

/// For who cannot send every method.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct OverrideHeader {
    /// `PATCH`, `DELETE` or `HEAD`.
    #[param(rename = "X-HTTP-Method-Override")]
    method: String,
}

/// What tus answers besides to who speaks another version.
#[derive(IntoResponses)]
pub(crate) enum TusVersion {
    /// The request does not say `Tus-Resumable: 1.0.0`.
    #[response(status = 412, content_type = "application/problem+json")]
    Version(Problem),
}

/// What tus answers besides to who sends a part. (412 is also said of another version of the protocol than 1.0.0.)
#[derive(IntoResponses)]
pub(crate) enum TusRefusals {
    /// A part has the type `application/offset+octet-stream`.
    #[response(status = 415, content_type = "application/problem+json")]
    Type(Problem),
    /// The part's checksum is another; the part counts as not sent.
    #[response(status = 460, content_type = "application/problem+json")]
    Checksum(Problem),
}
