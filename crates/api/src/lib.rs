//! The JSON API, version 1: what the web pages, the network client and scripts use besides WebDAV.
//!
//! Every route is registered together with its description ([`utoipa_axum`]), so the OpenAPI document at
//! `/api/v1/openapi.json` lists exactly the routes that exist. Rules that hold everywhere:
//!
//! - The server in front has signed the caller in and puts an `Arc<Session>` and a [`cookie::Visitor`] into the request's extensions.
//! - Errors are problem details (RFC 9457): `type`, `title`, `status`, `detail`.
//! - Times are milliseconds since 1970 (`…_ms`), sizes are bytes (`…_bytes`), absent means unlimited or never.
//! - Unknown fields in a request are errors: a misspelt limit must not be taken for "no limit".
//!
//! Limits: a request body has [`BODY_BYTES_MAX`] at most, but for content, which is streamed; a batch [`BATCH_ITEMS_MAX`] items; lists have
//! [`LIST_MAX`] entries at most and say how to go on.

mod archive;
mod audit;
pub mod cookie;
mod device;
mod extract;
pub mod federation;
pub mod figures;
#[doc(hidden)]
pub mod fuzzed;
mod party;
mod problem;
pub mod reference;
mod routes;
mod smaller;
mod tus;

pub use federation::Federation;
pub use problem::SESSION_CHALLENGE;
pub use routes::admin::drive::Setting;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Accounts, Authenticator, Journal};
use holdfast_blob::BlobStore;
use holdfast_drive::Drive;
use holdfast_drive::care::Reclaims;
use holdfast_function::Host;
use holdfast_jobs::desk::Desk;
use holdfast_meta::Catalogue;
use holdfast_site::Sites;
use holdfast_thumbnail::Thumbnails;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use std::sync::Arc;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

/// Longest request body: the largest thing sent here is a path.
pub const BODY_BYTES_MAX: usize = 128 << 10;

/// Longest body of a batch: a thousand items of two long paths.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Items of a batch at most: a page of a selection; the client sends the next when it has the answer.
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// Members of a folder in one answer at most: some 3 MB of JSON, which a browser takes in one go.
pub const FOLDER_MAX: usize = 10_000;

/// Entries of one answer at most.
pub const LIST_MAX: usize = 1_000;

/// Where the API lives.
pub const PREFIX: &str = "/api/v1";

/// Whether the visitor of a link may call a route, by its first segment below the prefix.
pub fn is_for_visitors(segment: &str) -> bool {
    routes::links::VISITED.contains(&segment)
}

/// Where it describes itself to programs.
pub const DOCUMENT: &str = "/api/v1/openapi.json";
/// Where it describes itself to people.
pub const REFERENCE: &str = "/api/v1/reference";
/// What that page looks like.
const REFERENCE_STYLE: &str = "/api/v1/reference.css";

/// Where the ways to sign in are.
const SIGN_IN: &str = "/api/v1/sign-in";

/// Whether an address tells everybody the same, so that nobody has to sign in for it.
pub fn is_public(path: &str) -> bool {
    [DOCUMENT, REFERENCE, REFERENCE_STYLE, SIGN_IN].contains(&path)
}

/// What the routes need.
#[derive(Clone)]
pub struct Api {
    /// The drive.
    pub drive: Arc<dyn Drive>,
    /// Accounts, tokens, members.
    pub accounts: Accounts,
    /// Checks names and passwords.
    pub authenticator: Authenticator,
    /// Publishing.
    pub sites: Sites,
    /// What passkeys know the drive as, if it is configured; otherwise what each request was sent to.
    pub party: Option<RelyingParty>,
    /// For administration.
    pub catalogue: Arc<dyn Catalogue>,
    /// Where packs are kept.
    pub store: Arc<dyn BlobStore>,
    /// The log of who did what.
    pub journal: Journal,
    /// Giving space back.
    pub reclaims: Reclaims,
    /// Transfers that servers of the drive run by schedule, if this one is told of any.
    pub desk: Option<Desk>,
    /// Functions that this server calls, if it is told of any.
    pub functions: Option<Host>,
    /// What is set on this node, without secrets.
    pub settings: Arc<[Setting]>,
    /// Providers whose people may sign in.
    pub federation: Arc<Federation>,
    /// Makes small pictures.
    pub thumbnails: Thumbnails,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Holdfast", version = "1", description = "A sealed drive. Sign in with HTTP Basic, with an app token as Bearer, or, as a browser, with a session."),
    modifiers(&Credentials), security(("basic" = []), ("token" = []), ("session" = [])),
    tags((name = "sessions"), (name = "me"), (name = "spaces"), (name = "shares"), (name = "links"), (name = "files"), (name = "uploads"), (name = "versions"), (name = "trash"), (name = "tags"), (name = "search"), (name = "tokens"), (name = "accounts"), (name = "sites"), (name = "functions"), (name = "administration"))
)]
struct Document;

/// The ways of signing in, for the description.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = |scheme| SecurityScheme::Http(HttpBuilder::new().scheme(scheme).build());
        let cookie = ApiKeyValue::with_description(
            "holdfast",
            "A browser's session (`__Host-holdfast` over TLS). What changes something has to show `Sec-Fetch-Site: same-origin` or its own `Origin`.",
        );
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("basic", scheme(HttpAuthScheme::Basic));
        components.add_security_scheme("token", scheme(HttpAuthScheme::Bearer));
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Document::openapi()).nest(PREFIX, routes::all())
}

/// The API's description.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().split_for_parts().1
}

/// The routes.
pub fn router(api: Api) -> Router {
    let (router, document) = routes().split_for_parts();
    // Made once: it does not change while the program runs.
    let page: Arc<str> = reference::page(&document).into();
    let document: Arc<str> = document.to_json().unwrap_or_default().into();
    let described = axum::routing::get(move || {
        let document = document.to_string();
        async move { ([(CONTENT_TYPE, "application/json")], document) }
    });
    let page = axum::routing::get(move || {
        let page = page.to_string();
        async move { ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, reference::POLICY)], page) }
    });
    let style = axum::routing::get(|| async { ([(CONTENT_TYPE, "text/css")], reference::STYLE) });
    router
        .route(DOCUMENT, described)
        .route(REFERENCE, page)
        .route(REFERENCE_STYLE, style)
        .layer(axum::middleware::from_fn_with_state(api.clone(), audit::keep))
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(smaller::lists))
        .with_state(api)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_below_the_prefix_and_every_operation_says_what_it_does() {
        let document = serde_json::to_value(document()).expect("serializes");
        let paths = document["paths"].as_object().expect("has paths");
        assert!(!paths.is_empty());
        for (path, operations) in paths {
            assert!(path.starts_with(PREFIX), "{path}");
            for (method, operation) in operations.as_object().expect("operations") {
                assert!(operation["summary"].is_string(), "{method} {path} has no summary");
                assert!(operation["responses"].as_object().is_some_and(|all| all.len() > 1), "{method} {path}");
            }
        }
    }

    #[test]
    fn the_written_reference_is_the_one_of_these_routes() {
        let written = include_str!("../../../docs/api.md");
        let made = reference::markdown(&document());
        assert!(written == made, "docs/api.md is behind: cargo run -p holdfast-api --example reference > docs/api.md");
    }

    #[test]
    fn the_routes_are_the_ones_docs_and_clients_know() {
        let document = serde_json::to_value(document()).expect("serializes");
        let mut routes: Vec<String> = document["paths"]
            .as_object()
            .expect("has paths")
            .iter()
            .flat_map(|(path, operations)| {
                let methods: Vec<String> = operations.as_object().expect("operations").keys().cloned().collect();
                methods.into_iter().map(move |method| format!("{} {path}", method.to_uppercase()))
            })
            .collect();
        routes.sort();
        let known: Vec<&str> = include_str!("../routes.txt").lines().collect();
        assert_eq!(routes, known, "routes.txt lists what the API promises; change it with the routes");
    }
}
