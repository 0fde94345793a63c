//! Signing in: from credentials to a token and the address of the account.
//!
//! **TempAuth** (Swift's own, v1): GET with `X-Auth-User` and `X-Auth-Key`; the answer's head has it all.
//! **Keystone** (Identity API v3): POST to `/auth/tokens`; the token is in the head, its end and the catalogue of services
//! in the body.

use crate::http::{Answer, Client, Payload};
use crate::secret::Secret;
use holdfast_base::{Error, ErrorKind, Result};
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Catalogues of large clouds have some hundred endpoints.
const CATALOGUE_BYTES_MAX: usize = 4 << 20;

/// How to sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// TempAuth v1.
    TempAuth {
        /// The address, such as `https://swift.example.org/auth/v1.0`.
        url: String,
        /// `account:user`.
        user: String,
        /// The key.
        key: Secret,
    },
    /// Keystone v3 with a password, for a project.
    Password {
        /// The address, with or without `/v3` at its end.
        url: String,
        /// The user.
        user: String,
        /// The user's domain.
        user_domain: String,
        /// The project.
        project: String,
        /// The project's domain.
        project_domain: String,
        /// The password.
        password: Secret,
    },
    /// Keystone v3 with an application credential, which has a project of its own.
    ApplicationCredential {
        /// The address, with or without `/v3` at its end.
        url: String,
        /// The credential's id.
        id: String,
        /// Its secret.
        secret: Secret,
    },
}

/// A session that began.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) token: Secret,
    /// The account's address, without a slash at its end.
    pub(super) storage_url: String,
    /// When the token ends, if that was told.
    pub(super) expires: Option<Instant>,
}

/// Which endpoint to take from a catalogue.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) region: Option<String>,
    pub(super) interface: String,
}

impl Auth {
    /// The address that signs in.
    pub(super) fn url(&self) -> &str {
        match self {
            Self::TempAuth { url, .. } | Self::Password { url, .. } | Self::ApplicationCredential { url, .. } => url,
        }
    }

    /// Signs in.
    pub(super) async fn sign_in(&self, client: &Client, choice: &Choice) -> Result<Session> {
        let session = match self {
            Self::TempAuth { url, user, key } => temp_auth(client, url, user, key).await,
            _ => keystone(client, self.url(), &self.identity(), choice).await,
        };
        session.map_err(|error| error.context("signing in to the store"))
    }

    /// The body of Keystone's request.
    fn identity(&self) -> serde_json::Value {
        match self {
            Self::Password { user, user_domain, project, project_domain, password, .. } => json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": {
                    "name": user, "domain": {"name": user_domain}, "password": password.reveal()}}},
                "scope": {"project": {"name": project, "domain": {"name": project_domain}}}}}),
            Self::ApplicationCredential { id, secret, .. } => json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret.reveal()}}}}),
            Self::TempAuth { .. } => serde_json::Value::Null,
        }
    }
}

fn unusable(error: http::Error) -> Error {
    Error::invalid("a credential or address has characters that HTTP cannot carry").with_source(error)
}

async fn temp_auth(client: &Client, url: &str, user: &str, key: &Secret) -> Result<Session> {
    let request = Request::get(url).header("x-auth-user", user).header("x-auth-key", key.reveal());
    let answer = client.send(request.body(Payload::empty()).map_err(unusable)?).await?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let header = |name: &str| {
        let value = answer.header(name).map(ToOwned::to_owned);
        value.ok_or_else(|| Error::damaged(format!("{url} signs in without {name}: is it TempAuth v1?")))
    };
    let expires = answer.number("x-auth-token-expires").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (token, storage_url) = (Secret::new(header("x-auth-token")?), header("x-storage-url")?);
    answer.finish().await?;
    Ok(Session { token, storage_url: storage_url.trim_end_matches('/').to_owned(), expires })
}

async fn keystone(client: &Client, url: &str, identity: &serde_json::Value, choice: &Choice) -> Result<Session> {
    let base = url.trim_end_matches('/');
    let base = base.strip_suffix("/auth/tokens").unwrap_or(base);
    let base = if base.ends_with("/v3") { base.to_owned() } else { format!("{base}/v3") };
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{base}/auth/tokens"))
        .header("content-type", "application/json")
        .body(Payload::from(identity.to_string()));
    let answer = client.send(request.map_err(unusable)?).await?;
    if answer.status != StatusCode::CREATED {
        return Err(refusal(&answer));
    }
    let token = answer.header("x-subject-token").map(Secret::new);
    let token = token.ok_or_else(|| Error::damaged(format!("{base} signs in without a token: is it Keystone v3?")))?;
    let granted = parse_token(&answer.text(CATALOGUE_BYTES_MAX).await?)?;
    let storage_url = granted.endpoint(choice)?;
    Ok(Session { token, storage_url, expires: granted.expires() })
}

fn refusal(answer: &Answer) -> Error {
    let status = answer.status.as_u16();
    let (kind, message) = match status {
        401 | 403 => (ErrorKind::Unauthenticated, "user, key or project is wrong".to_owned()),
        404 => (ErrorKind::InvalidInput, "nobody signs in at this address: mend auth".to_owned()),
        429 => {
            let retry_after_s = answer.retry_after_s().unwrap_or(1);
            (ErrorKind::TooManyRequests { retry_after_s }, "too many attempts".to_owned())
        }
        300..=399 => (ErrorKind::InvalidInput, "it sends us elsewhere: mend auth".to_owned()),
        400..=499 => (ErrorKind::InvalidInput, format!("the request is refused ({status})")),
        _ => (ErrorKind::Unavailable, format!("the service failed ({status})")),
    };
    Error::new(kind, message)
}

/// The body of Keystone's answer, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Granted {
    token: Token,
}

#[derive(Debug, Deserialize)]
struct Token {
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    interface: String,
    /// The same in two words, of which old services know one.
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    url: String,
}

fn parse_token(body: &[u8]) -> Result<Granted> {
    serde_json::from_slice(body).map_err(|error| {
        // The message of the parser says where, not what.
        let place = format!("line {}, column {}", error.line(), error.column());
        Error::damaged("the answer to signing in is not what Keystone v3 sends").with_source(place)
    })
}

impl Endpoint {
    fn region(&self) -> Option<&str> {
        self.region_id.as_deref().or(self.region.as_deref())
    }
}

impl Granted {
    fn endpoint(&self, choice: &Choice) -> Result<String> {
        let stores = self.token.catalog.iter().filter(|service| service.kind == "object-store");
        let endpoints: Vec<&Endpoint> =
            stores.flat_map(|service| &service.endpoints).filter(|found| found.interface == choice.interface).collect();
        let fits = |found: &&&Endpoint| choice.region.is_none() || found.region() == choice.region.as_deref();
        if let Some(found) = endpoints.iter().find(fits) {
            return Ok(found.url.trim_end_matches('/').to_owned());
        }
        let regions: Vec<&str> = endpoints.iter().filter_map(|found| found.region()).collect();
        Err(Error::invalid(match (&choice.region, regions.is_empty()) {
            (Some(region), false) => {
                format!("there is no object store in region {region:?}; there is in {}", regions.join(", "))
            }
            _ => format!("the catalogue of services has no object store with the interface {:?}", choice.interface),
        }))
    }

    fn expires(&self) -> Option<Instant> {
        let end = OffsetDateTime::parse(self.token.expires_at.as_deref()?, &Rfc3339).ok()?;
        let left = Duration::try_from(end - OffsetDateTime::now_utc()).unwrap_or_default();
        Instant::now().checked_add(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: &str = r#"{"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": [
        {"type": "identity", "endpoints": []},
        {"type": "object-store", "endpoints": [
            {"interface": "public", "region": "north", "url": "https://n/v1/AUTH_x"},
            {"interface": "internal", "region": "north", "url": "https://i/v1/AUTH_x"},
            {"interface": "public", "region": "south", "region_id": "south", "url": "https://s/v1/AUTH_x/"}]}]}}"#;

    fn endpoint(region: Option<&str>, interface: &str) -> Result<String> {
        let granted = parse_token(GRANTED.as_bytes()).expect("parses");
        granted.endpoint(&Choice { region: region.map(ToOwned::to_owned), interface: interface.to_owned() })
    }

    #[test]
    fn the_endpoint_is_chosen_by_region_and_interface() {
        assert_eq!(endpoint(None, "public").expect("found"), "https://n/v1/AUTH_x");
        assert_eq!(endpoint(Some("south"), "public").expect("found"), "https://s/v1/AUTH_x");
        assert_eq!(endpoint(None, "internal").expect("found"), "https://i/v1/AUTH_x");
        let error = endpoint(Some("east"), "public").expect_err("no such region");
        assert!(error.message().contains("north, south"), "{error}");
        assert!(endpoint(None, "admin").is_err());
    }

    #[test]
    fn no_secret_is_printed() {
        let auth = Auth::TempAuth { url: "http://x".into(), user: "a:b".into(), key: Secret::new("hunter2") };
        assert!(!format!("{auth:?}").contains("hunter2"));
    }
}
