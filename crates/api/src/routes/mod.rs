//! The routes, one file a thing.

mod accounts;
mod me;
mod sites;
mod sites_bodies;
mod spaces;
mod tokens;
mod trash;
mod uploads;
mod versions;

use crate::Api;
use crate::problem::Problem;
use holdfast_base::{DrivePath, Result};
use holdfast_drive::Location;
use utoipa::IntoResponses;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What every route may answer besides its own.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "a description only")]
pub(crate) enum Failures {
    /// The request is malformed.
    #[response(status = 400)]
    Invalid(#[to_schema] Problem),
    /// No valid credential.
    #[response(status = 401)]
    Unauthenticated(#[to_schema] Problem),
    /// The credential does not allow this.
    #[response(status = 403)]
    Forbidden(#[to_schema] Problem),
    /// There is no such thing, or the caller may not see it.
    #[response(status = 404)]
    NotFound(#[to_schema] Problem),
    /// The state of things does not allow it.
    #[response(status = 409)]
    Conflict(#[to_schema] Problem),
}

/// All routes, relative to the prefix.
pub(crate) fn all() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(me::show))
        .routes(routes!(me::change_password))
        .routes(routes!(spaces::show))
        .routes(routes!(spaces::members))
        .routes(routes!(versions::list))
        .routes(routes!(versions::restore))
        .routes(routes!(trash::list, trash::empty))
        .routes(routes!(trash::restore, trash::remove))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(accounts::list, accounts::create))
        .routes(routes!(accounts::change))
        .routes(routes!(uploads::list, uploads::create, uploads::options))
        .routes(routes!(uploads::show, uploads::stands, uploads::go_on, uploads::give_up, uploads::overridden))
        .routes(routes!(uploads::finish))
        .routes(routes!(sites::list))
        .routes(routes!(sites::show, sites::set, sites::remove))
        .routes(routes!(sites::publish))
        .routes(routes!(sites::history))
        .routes(routes!(sites::snapshots))
        .routes(routes!(sites::roll_back))
        .routes(routes!(sites::unpublish))
        .routes(routes!(sites::preview))
}

/// A place from a space's name and a path as text.
fn location(space: String, path: &str) -> Result<Location> {
    Ok(Location { space, path: DrivePath::parse(path)? })
}
