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
pub mod cookie;
mod device;
mod extract;
pub mod federation;
mod party;
mod problem;
mod routes;
mod tus;

pub use federation::Federation;
pub use problem::SESSION_CHALLENGE;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Accounts, Authenticator};
use holdfast_drive::Drive;
use holdfast_site::Sites;
use std::sync::Arc;
use utoipa::OpenApi;
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
    /// Providers whose people may sign in.
    pub federation: Arc<Federation>,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Holdfast", description = "A sealed drive. Sign in with HTTP Basic, with an app token as Bearer, or, as a browser, with a session."),
    tags((name = "sessions"), (name = "me"), (name = "spaces"), (name = "files"), (name = "uploads"), (name = "versions"), (name = "trash"), (name = "tags"), (name = "search"), (name = "tokens"), (name = "accounts"), (name = "sites"))
)]
struct Document;

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
    let document: Arc<str> = document.to_json().unwrap_or_default().into();
    let described = axum::routing::get(move || {
        let document = document.to_string();
        async move { ([(http::header::CONTENT_TYPE, "application/json")], document) }
    });
    router
        .route(&format!("{PREFIX}/openapi.json"), described)
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
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
