//! One signed request.

use super::credentials::Keyring;
use super::failure::{self, Meaning, Refusal};
use super::sign::{self, Canonical};
use super::{Credentials, S3Options};
use crate::http::{Answer, Client, Payload, Trust, check_scheme};
use crate::object::{Body, hex};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_base::{Error, Result};
use http::{Method, Request, StatusCode, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What Signature Version 4 leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a path leaves as it is.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// A bucket of a service.
pub struct S3 {
    client: Client,
    keyring: Keyring,
    region: String,
    bucket: String,
    /// `https://host:port`.
    origin: String,
    host: String,
    /// Empty, or `/bucket` with a slash before it.
    root: String,
}

/// A request to be made.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    key: Option<String>,
    query: Vec<(String, String)>,
    headers: Vec<(&'static str, String)>,
    body: Payload,
    sum: Option<String>,
}

impl Call {
    /// A request about the bucket.
    pub const fn new(method: Method) -> Self {
        Self { method, key: None, query: Vec::new(), headers: Vec::new(), body: Payload::empty(), sum: None }
    }

    /// About an object.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// With a parameter.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a header, which is signed.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// With bytes and their sums.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.headers.push(("content-md5", STANDARD.encode(body.md5)));
        self.body = body.payload;
        self.sum = Some(body.sha256.unwrap_or_else(|| "UNSIGNED-PAYLOAD".to_owned()));
        self
    }

    /// With a text.
    #[must_use]
    pub fn text(mut self, text: String) -> Self {
        self.sum = Some(sum_of(text.as_bytes()));
        self.body = text.into();
        self
    }

    fn query_string(&self) -> String {
        let encode = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
        let mut pairs: Vec<_> = self.query.iter().map(|(name, value)| (encode(name), encode(value))).collect();
        pairs.sort_unstable();
        let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("&")
    }
}

fn sum_of(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

impl S3 {
    /// A bucket, which is not asked for yet.
    pub fn new(options: &S3Options) -> Result<Self> {
        check_bucket(&options.bucket)?;
        let amazon = format!("https://s3.{}.amazonaws.com", options.region);
        let endpoint: Uri = options.endpoint.as_deref().unwrap_or(&amazon).parse().map_err(|error| {
            Error::invalid("endpoint is no address such as https://s3.example.org").with_source(error)
        })?;
        check_scheme(&endpoint, options.plain_http)?;
        let (Some(scheme), Some(authority), "" | "/") = (endpoint.scheme_str(), endpoint.authority(), endpoint.path())
        else {
            return Err(Error::invalid(format!("endpoint {endpoint} must be a host alone, without a path")));
        };
        let in_path = options.path_style.unwrap_or(options.endpoint.is_some());
        let host = if in_path { authority.to_string() } else { format!("{}.{authority}", options.bucket) };
        let trust = match &options.ca_file {
            _ if scheme == "http" => Trust::Nobody,
            Some(path) => Trust::File(path.clone()),
            None => Trust::Machine,
        };
        Ok(Self {
            client: Client::new(&trust, options.times)?,
            keyring: Keyring::open(&options.credentials)?,
            region: options.region.clone(),
            bucket: options.bucket.clone(),
            origin: format!("{scheme}://{host}"),
            host,
            root: if in_path { format!("/{}", options.bucket) } else { String::new() },
        })
    }

    /// Whether the sum of a body must be in its signature: over plain connections nothing else protects the request.
    pub fn wants_sha256(&self) -> bool {
        self.origin.starts_with("http:")
    }

    /// Makes the request; once more if its credentials were refused and there are others by now.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let credentials = self.keyring.current();
        let answer = self.client.send(self.signed(&call, &credentials)?).await?;
        if answer.status == StatusCode::FORBIDDEN && self.keyring.renew(&credentials) {
            answer.finish().await?;
            return self.client.send(self.signed(&call, &self.keyring.current())?).await;
        }
        Ok(answer)
    }

    fn signed(&self, call: &Call, credentials: &Credentials) -> Result<Request<Payload>> {
        let timestamp = sign::timestamp(time::OffsetDateTime::now_utc());
        let sum = call.sum.clone().unwrap_or_else(|| sum_of(&[]));
        let path = match &call.key {
            Some(key) => format!("{}/{}", self.root, utf8_percent_encode(key, PATH)),
            None => format!("{}/", self.root),
        };
        let query = call.query_string();
        let mut headers = call.headers.clone();
        headers.push(("host", self.host.clone()));
        headers.push(("x-amz-content-sha256", sum.clone()));
        headers.push(("x-amz-date", timestamp.clone()));
        if let Some(token) = &credentials.session_token {
            headers.push(("x-amz-security-token", token.reveal().to_owned()));
        }
        headers.sort_unstable_by_key(|(name, _)| *name);
        let canonical =
            Canonical { method: call.method.as_str(), path: &path, query: &query, headers: &headers, sum: &sum };
        let authorization = sign::authorization(&canonical, credentials, &self.region, &timestamp);
        let separator = if query.is_empty() { "" } else { "?" };
        let mut request =
            Request::builder().method(&call.method).uri(format!("{}{path}{separator}{query}", self.origin));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", authorization).body(call.body.clone());
        request.map_err(|error| Error::internal("a request to the store could not be built").with_source(error))
    }

    /// What an answer that is no success means.
    pub(super) async fn failure(&self, answer: Answer, meaning: Meaning) -> Error {
        failure::error(&self.refusal(answer).await, meaning)
    }

    /// An answer that is no success, in its parts.
    pub async fn refusal(&self, answer: Answer) -> Refusal {
        let (status, region) = (answer.status, answer.header("x-amz-bucket-region").map(ToOwned::to_owned));
        let retry_after_s = answer.retry_after_s();
        let text = answer.text(crate::http::ERROR_TEXT_BYTES_MAX).await.unwrap_or_default();
        Refusal { status, told: super::xml::error_of(&text), region, retry_after_s, bucket: self.bucket.clone() }
    }
}

/// A bucket's name goes into host names, paths and signatures as it is.
fn check_bucket(bucket: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if (3..=63).contains(&bucket.len()) && bucket.bytes().all(plain) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{bucket:?} cannot be a bucket: its name has 3 to 63 lower-case letters, digits, '-' and '.'"
    )))
}
