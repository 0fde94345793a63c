//! What passkeys know the drive as: the origin of its pages.

use crate::Api;
use crate::cookie::Visitor;
use axum::extract::FromRequestParts;
use holdfast_auth::passkey::RelyingParty;
use http::header::HOST;
use http::request::Parts;
use std::convert::Infallible;

/// The configured origin, or the one this request was sent to. A browser uses a passkey only on pages of the name it was made for, whatever
/// a request says.
pub(crate) struct Party(pub(crate) RelyingParty);

impl FromRequestParts<Api> for Party {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Infallible> {
        if let Some(party) = &api.party {
            return Ok(Self(party.clone()));
        }
        let encrypted = parts.extensions.get::<Visitor>().is_some_and(|visitor| visitor.encrypted);
        let host = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
        let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
        let origin = format!("{}://{host}", if encrypted { "https" } else { "http" });
        // At an address that is no name there are no passkeys: nothing any browser answers fits this.
        let named = RelyingParty::of_origin(&origin);
        Ok(Self(named.unwrap_or_else(|| RelyingParty { origin, id: String::new() })))
    }
}
