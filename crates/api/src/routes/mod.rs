//! The routes, one file a thing.

mod accounts;
pub(crate) mod admin;
mod archive;
mod batches;
mod content;
mod factors;
mod federation;
mod functions;
mod functions_bodies;
pub(crate) mod links;
mod me;
mod nodes;
mod passkeys;
mod search;
mod searches;
mod session;
mod shares;
mod sites;
mod sites_bodies;
mod spaces;
mod tags;
mod thumbnails;
mod tokens;
mod trash;
mod uploads;
mod uploads_headers;
mod versions;

pub(crate) use passkeys::QuestionBody;

use crate::problem::Problem;
use crate::{Api, BATCH_BYTES_MAX};
use axum::extract::DefaultBodyLimit;
use holdfast_base::{DrivePath, Result};
use holdfast_drive::Location;
use utoipa::IntoResponses;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

/// What every route may answer besides its own.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "a description only")]
pub(crate) enum Failures {
    /// The request is malformed.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// No valid credential.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthenticated(Problem),
    /// The credential does not allow this.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// There is no such thing, or the caller may not see it.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(Problem),
    /// The state of things does not allow it.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(Problem),
    /// Something is over a limit.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// Too many failed attempts to sign in; `Retry-After` says when the next one is looked at.
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(Problem),
    /// A defect of the server, or damaged data.
    #[response(status = 500, content_type = "application/problem+json")]
    Internal(Problem),
    /// A part of the server is not reachable, or too much is going on; the same request may work later.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}

/// What a route that changes files may answer besides.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "a description only")]
pub(crate) enum Refusals {
    /// The body came too slowly.
    #[response(status = 408, content_type = "application/problem+json")]
    Timeout(Problem),
    /// The file is not as the request expects it.
    #[response(status = 412, content_type = "application/problem+json")]
    Precondition(Problem),
    /// Somebody has locked it.
    #[response(status = 423, content_type = "application/problem+json")]
    Locked(Problem),
    /// No room: a quota, or the disk.
    #[response(status = 507, content_type = "application/problem+json")]
    NoSpace(Problem),
}

/// Statuses that every route may answer, with what they mean.
pub(crate) fn common_failures() -> Vec<(String, String)> {
    let meaning = |answer| match answer {
        utoipa::openapi::RefOr::T(utoipa::openapi::Response { description, .. }) => description,
        utoipa::openapi::RefOr::Ref(_) => String::new(),
    };
    <Failures as IntoResponses>::responses().into_iter().map(|(status, answer)| (status, meaning(answer))).collect()
}

/// All routes, relative to the prefix.
pub(crate) fn all() -> OpenApiRouter<Api> {
    let router = below(OpenApiRouter::new(), "/nodes", routes!(nodes::show));
    let router = below(router, "/folders", routes!(nodes::list, nodes::make));
    let router = below(router, "/content", routes!(content::read, content::head, content::write));
    let router = below(router, "/archive", routes!(archive::folder));
    let router = below(router, "/thumbnails", routes!(thumbnails::show));
    router
        .routes(routes!(archive::selection).layer(DefaultBodyLimit::max(BATCH_BYTES_MAX)))
        .routes(routes!(batches::relocate).layer(DefaultBodyLimit::max(BATCH_BYTES_MAX)))
        .routes(routes!(batches::copy).layer(DefaultBodyLimit::max(BATCH_BYTES_MAX)))
        .routes(routes!(batches::remove).layer(DefaultBodyLimit::max(BATCH_BYTES_MAX)))
        .routes(routes!(session::sign_in, session::sign_out, session::who))
        .routes(routes!(session::recover))
        .routes(routes!(session::list))
        .routes(routes!(session::end))
        .routes(routes!(me::show))
        .routes(routes!(me::change_password))
        .routes(routes!(factors::show))
        .routes(routes!(factors::begin, factors::switch_on))
        .routes(routes!(factors::switch_off))
        .routes(routes!(factors::renew_recovery_code))
        .routes(routes!(federation::ways))
        .routes(routes!(federation::begin))
        .routes(routes!(federation::answer))
        .routes(routes!(federation::passphrase))
        .routes(routes!(federation::leave))
        .routes(routes!(federation::list, federation::link))
        .routes(routes!(federation::begin_link))
        .routes(routes!(federation::unlink))
        .routes(routes!(passkeys::ask_new))
        .routes(routes!(passkeys::add))
        .routes(routes!(passkeys::rename))
        .routes(routes!(passkeys::remove))
        .routes(routes!(passkeys::ask))
        .routes(routes!(passkeys::sign_in))
        .routes(routes!(spaces::show))
        .routes(routes!(spaces::members))
        .routes(routes!(spaces::set_member, spaces::remove_member))
        .routes(routes!(shares::list, shares::create))
        .routes(routes!(shares::change, shares::remove))
        .routes(routes!(links::open, links::show, links::close))
        .routes(routes!(versions::list))
        .routes(routes!(versions::restore))
        .routes(routes!(trash::list, trash::empty))
        .routes(routes!(trash::restore, trash::remove))
        .routes(routes!(tags::list, tags::change).layer(DefaultBodyLimit::max(BATCH_BYTES_MAX)))
        .routes(routes!(search::search))
        .routes(routes!(searches::list, searches::save))
        .routes(routes!(searches::change, searches::remove))
        .routes(routes!(searches::nodes))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(accounts::list, accounts::create))
        .routes(routes!(accounts::change))
        .routes(routes!(accounts::reset_factors))
        .routes(routes!(accounts::sign_out))
        .routes(routes!(admin::audit::list))
        .routes(routes!(admin::audit::export))
        .routes(routes!(admin::monitor::now))
        .routes(routes!(admin::monitor::history))
        .routes(routes!(admin::drive::cluster))
        .routes(routes!(admin::drive::store))
        .routes(routes!(admin::drive::reclaim))
        .routes(routes!(admin::drive::settings))
        .routes(routes!(admin::jobs::list))
        .routes(routes!(admin::jobs::show))
        .routes(routes!(admin::jobs::history, admin::jobs::start))
        .routes(routes!(admin::jobs::run))
        .routes(routes!(admin::jobs::stop))
        .routes(routes!(admin::jobs::preview))
        .routes(routes!(admin::spaces::list, admin::spaces::create))
        .routes(routes!(admin::spaces::change))
        .routes(routes!(uploads::list, uploads::create, uploads::options))
        .routes(routes!(uploads::show, uploads::stands, uploads::go_on, uploads::give_up, uploads::overridden))
        .routes(routes!(uploads::finish))
        .routes(routes!(functions::list))
        .routes(routes!(functions::invoke))
        .routes(routes!(functions::calls))
        .routes(routes!(functions::call))
        .routes(routes!(sites::list))
        .routes(routes!(sites::show, sites::set, sites::remove))
        .routes(routes!(sites::publish))
        .routes(routes!(sites::history))
        .routes(routes!(sites::snapshots))
        .routes(routes!(sites::roll_back))
        .routes(routes!(sites::unpublish))
        .routes(routes!(sites::preview))
}

/// Routes described as `{base}/{space}/{path}`, where the path has any number of segments, none included.
fn below(router: OpenApiRouter<Api>, base: &str, described: UtoipaMethodRouter<Api>) -> OpenApiRouter<Api> {
    let methods = described.2.clone();
    ["/{space}", "/{space}/", "/{space}/{path}/", "/{space}/{path}/{*rest}"]
        .into_iter()
        .fold(router.routes(described), |router, rest| router.route(&format!("{base}{rest}"), methods.clone()))
}

/// A place from a space's name and a path as text.
fn location(space: String, path: &str) -> Result<Location> {
    Ok(Location { space, path: DrivePath::parse(path)? })
}
