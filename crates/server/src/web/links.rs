//! The visitor of a link: `/api/v1/links/{id}/…`.
//!
//! `POST …/session` opens the link. Everything else needs the link's own cookie, and no other credential counts: neither a member's session nor a
//! password makes more of a link than it is. A program may send the link's secret as a Bearer token in place of the cookie, to get content or an archive in one request. What a visitor may call ([`holdfast_api::is_for_visitors`]) answers here as it does without
//! `/links/{id}`; a `Location` in the answer is turned to here as well.

use super::{Client, Record, RequestBody, Web, browser, gate, refuse, reply};
use crate::conn::AnyBody;
use holdfast_api::{PREFIX, cookie};
use holdfast_auth::{Credential, Secret};
use holdfast_base::{Error, ErrorKind, Result, Uid};
use http::header::{CONTENT_LOCATION, LOCATION, WWW_AUTHENTICATE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri};
use std::net::IpAddr;

/// A request about a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The link, if that can be one.
    link: Option<Uid>,
    /// What comes after it in the path, with its slash.
    rest: String,
}

/// What the visitor of a link shows.
pub(crate) enum Shown {
    /// The visit's cookie.
    Cookie(Secret),
    /// The link's own secret, with one request, and where that came from.
    Secret(Secret, IpAddr),
}

/// Whether a path is about a link.
pub(super) fn of(path: &str) -> Option<Asked> {
    let rest = path.strip_prefix(PREFIX)?.strip_prefix("/links/")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (link, rest) = rest.split_at(at);
    Some(Asked { link: link.parse().ok(), rest: rest.to_owned() })
}

impl Asked {
    fn is_session(&self) -> bool {
        self.rest == "/session"
    }

    fn is_for_visitors(&self) -> bool {
        self.first().is_some_and(holdfast_api::is_for_visitors)
    }

    /// Whether a program may ask for it with the link's secret in the request: content and archives are got, and nothing else.
    fn is_for_programs(&self, method: &Method) -> bool {
        [Method::GET, Method::HEAD].contains(method) && matches!(self.first(), Some("content" | "archive"))
    }

    fn first(&self) -> Option<&str> {
        self.rest.trim_start_matches('/').split('/').next()
    }
}

impl Web {
    /// Answers a request about a link.
    pub(super) async fn link(
        &self,
        client: &Client,
        record: &mut Record,
        mut request: Request<RequestBody>,
        asked: Asked,
    ) -> Response<AnyBody> {
        if !asked.is_session() && !asked.is_for_visitors() {
            return reply::error(&Error::not_found("there is no such address for the visitor of a link"), true);
        }
        if asked.is_session() && request.method() == Method::POST {
            let admitted = browser::check_origin(&request, client.encrypted, false)
                .and_then(|()| gate::check_transport(client, self.allow_plain_http));
            return match admitted {
                Ok(()) => self.call_api(request).await,
                Err(error) => refuse(record, client, &error),
            };
        }
        let known = [Method::GET, Method::HEAD, Method::DELETE].contains(request.method());
        if asked.is_session() && !known {
            // The API says which methods there are.
            return self.call_api(request).await;
        }
        let session = match self.visitor(client, &request, &asked).await {
            Ok(session) => session,
            // A page that begins asks whether it has opened the link; that it has not is no failure.
            Err(error)
                if error.kind() == ErrorKind::Unauthenticated
                    && asked.is_session()
                    && request.method() == Method::GET
                    && browser::says_it_is_a_page(request.headers()) =>
            {
                return self.call_api(request).await;
            }
            Err(error) => {
                let answer = refuse(record, client, &error);
                return match error.kind() {
                    ErrorKind::Unauthenticated => {
                        reply::with(answer, WWW_AUTHENTICATE, holdfast_api::SESSION_CHALLENGE)
                    }
                    _ => answer,
                };
            }
        };
        record.account = Some((session.account, session.name.clone()));
        request.extensions_mut().insert(session);
        if asked.is_session() {
            return self.call_api(request).await;
        }
        match without_link(request.uri(), &asked.rest) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return refuse(record, client, &error),
        }
        let mut answer = self.call_api(request).await;
        turn_to_link(&mut answer, &asked);
        answer
    }

    async fn visitor(
        &self,
        client: &Client,
        request: &Request<RequestBody>,
        asked: &Asked,
    ) -> Result<std::sync::Arc<holdfast_auth::Session>> {
        let closed = || Error::new(ErrorKind::Unauthenticated, "open the link first");
        let link = asked.link.ok_or_else(closed)?;
        let shown = match cookie::read_link(request.headers(), client.encrypted, link) {
            Some(secret) => Shown::Cookie(secret),
            None if asked.is_for_programs(request.method()) => match gate::credential(request.headers())? {
                Some(Credential::Bearer(secret)) => Shown::Secret(secret, client.address),
                _ => return Err(closed()),
            },
            None => return Err(closed()),
        };
        browser::check_origin(request, client.encrypted, matches!(shown, Shown::Cookie(_)))?;
        gate::check_transport(client, self.allow_plain_http)?;
        (self.visit)(link, shown).await
    }
}

/// The address of the route itself.
fn without_link(uri: &Uri, rest: &str) -> Result<Uri> {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let bad = |error| Error::invalid("the address is malformed").with_source(error);
    let path = PathAndQuery::try_from(format!("{PREFIX}{rest}{query}")).map_err(bad)?;
    Ok(Uri::from(path))
}

/// Where an answer says that something is, it is for this visitor below the link.
fn turn_to_link(answer: &mut Response<AnyBody>, asked: &Asked) {
    let Some(link) = asked.link else { return };
    for name in [LOCATION, CONTENT_LOCATION] {
        let rest = answer.headers().get(&name).and_then(|value| value.to_str().ok()?.strip_prefix(PREFIX));
        let turned = rest.and_then(|rest| HeaderValue::try_from(format!("{PREFIX}/links/{link}{rest}")).ok());
        if let Some(value) = turned {
            answer.headers_mut().insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_for_visitors_is_reached_through_a_link() {
        let link = "0123456789abcdef0123456789abcdef";
        let asked = |rest: &str| of(&format!("{PREFIX}/links/{link}{rest}")).expect("of a link");
        assert!(asked("/nodes/link/").is_for_visitors() && asked("/uploads").is_for_visitors());
        for other in ["/me", "/shares", "/links/x/session", "", "/", "/session", "/nodesx", "/tokens", "/spaces/ana"] {
            assert!(!asked(other).is_for_visitors(), "{other}");
        }
        assert!(asked("/session").is_session() && !asked("/session/").is_session());
        assert!(of("/api/v1/nodes/links/x").is_none() && of("/api/v1/links").is_none());
        assert_eq!(of("/api/v1/links/zz/nodes").expect("of a link").link, None);
        let uri: Uri = format!("{PREFIX}/links/{link}/search?q=a%20b").parse().expect("an address");
        assert_eq!(without_link(&uri, "/search").expect("turns"), "/api/v1/search?q=a%20b");
    }
}
