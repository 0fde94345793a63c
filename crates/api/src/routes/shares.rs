//! Sharing: folders with accounts, files and folders by link. The page of a link, and what its visitor may call, are in [`super::links`].

use super::{Failures, accounts::Wish};
use crate::Api;
use crate::extract::{Caller, Json, Path, Query};
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::accounts::{ShareRequest, ShareWish};
use holdfast_auth::{Secret, Session};
use holdfast_base::{DrivePath, Error, Uid};
use holdfast_drive::{Access, NodeKind, Shared};
use holdfast_meta::audit::amend;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A share.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShareBody {
    /// Names it, in addresses as well.
    id: String,
    /// Who shared it.
    by: String,
    /// With whom; absent for a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    /// Its space: to whom it is shared with, what stands in place of a space's name.
    space: String,
    /// Where it is in that space; absent while it is in the trash, or gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// `file` or `folder`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    kind: Option<NodeKind>,
    /// `read`, `write` or `upload`.
    #[schema(value_type = String)]
    access: Access,
    /// A note of whoever shared it.
    label: String,
    /// A link's address on this server, with its secret: for whoever made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    /// Whether a link has a password.
    has_password: bool,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    /// Downloads at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    downloads_max: Option<u64>,
    /// Downloads so far, where there is a limit.
    downloads: u64,
    /// When it was made.
    created_ms: i64,
}

impl ShareBody {
    /// As those see it who manage it.
    fn managed(api: &Api, who: &Session, shared: Shared) -> Self {
        let secret = api.accounts.link_secret(who, &shared);
        let link = secret.map(|secret| format!("/l/{}#{}", shared.share.uid, secret.expose()));
        let (path, kind) = shared.place.map(|(path, kind)| (path.to_string(), kind)).unzip();
        let share = shared.share;
        Self {
            id: share.uid.to_string(),
            by: share.by_name,
            account: share.account.map(|_| share.account_name),
            space: shared.space.name,
            path,
            kind,
            access: share.access,
            label: share.label,
            link,
            has_password: share.link.is_some_and(|link| link.has_password),
            expires_ms: share.expires_ms,
            downloads_max: share.downloads_max,
            downloads: share.downloads,
            created_ms: share.created_ms,
        }
    }

    /// As somebody sees it with whom it is shared.
    fn had(api: &Api, who: &Session, shared: Shared) -> Self {
        let name = shared.share.name.clone();
        let mut body = Self::managed(api, who, shared);
        // Where it is in a space that is not theirs is not theirs to know.
        body.space = name;
        body.path = body.path.map(|_| "/".to_owned());
        body
    }
}

/// What is shared.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SharesBody {
    /// By the caller, or, if a place was named, of that place by anybody.
    by_me: Vec<ShareBody>,
    /// With the caller; left out if a place was named.
    with_me: Vec<ShareBody>,
}

/// Which shares.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those of a space the caller owns.
    space: Option<String>,
    /// Those of one place in it.
    path: Option<String>,
}

/// What I have shared, and what is shared with me.
#[utoipa::path(get, path = "/shares", tag = "shares", params(Which), responses((status = 200, body = SharesBody), Failures))]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<axum::Json<SharesBody>, Failure> {
    let who = &caller.0;
    let (made, had) = match which.space {
        Some(space) => {
            let path = which.path.as_deref().map(DrivePath::parse).transpose()?;
            (api.accounts.shares_of(who, &space, path.as_ref()).await?, Vec::new())
        }
        None if which.path.is_some() => return Err(Error::invalid("a path needs a space").into()),
        None => (api.accounts.shares_made(who).await?, api.accounts.shares_had(who).await?),
    };
    Ok(axum::Json(SharesBody {
        by_me: made.into_iter().map(|shared| ShareBody::managed(&api, who, shared)).collect(),
        with_me: had.into_iter().map(|shared| ShareBody::had(&api, who, shared)).collect(),
    }))
}

/// Something to be shared.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewShareBody {
    /// The space, which the caller must own.
    space: String,
    /// A folder; for a link also a file.
    path: String,
    /// With which account; absent makes a link.
    #[serde(default)]
    account: Option<String>,
    /// `read`, `write` or, for a link to a folder, `upload`.
    #[schema(value_type = String)]
    access: Access,
    /// A note.
    #[serde(default)]
    label: String,
    /// A link's password.
    #[serde(default)]
    password: Option<String>,
    /// When it ends; absent is never.
    #[serde(default)]
    expires_ms: Option<i64>,
    /// A link's downloads at most.
    #[serde(default)]
    downloads_max: Option<u64>,
}

/// Share a folder with an account, or make a link.
///
/// For owners of the space. The account finds the folder beside its spaces. The answer of a link has its address, whose last part is a
/// secret that browsers do not send.
#[utoipa::path(post, path = "/shares", tag = "shares", request_body = NewShareBody,
    responses((status = 201, body = ShareBody), Failures))]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(wanted): Json<NewShareBody>,
) -> Result<(StatusCode, axum::Json<ShareBody>), Failure> {
    let request = ShareRequest {
        account: wanted.account,
        access: wanted.access,
        label: wanted.label,
        password: wanted.password.map(Secret::new),
        expires_ms: wanted.expires_ms,
        downloads_max: wanted.downloads_max,
    };
    let path = DrivePath::parse(&wanted.path)?;
    amend(|note| {
        note.object = format!("{}{path}", wanted.space);
        note.detail = request.account.as_ref().map_or_else(|| "a link".to_owned(), |account| format!("with {account}"));
    });
    let shared = api.accounts.share(&caller.0, &wanted.space, &path, request).await?;
    Ok((StatusCode::CREATED, axum::Json(ShareBody::managed(&api, &caller.0, shared))))
}

/// Changes of a share; absent leaves things as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareChangeBody {
    /// `read`, `write` or `upload`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    access: Option<Access>,
    /// A note.
    #[serde(default)]
    label: Option<String>,
    /// A link's password; null is none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    password: Wish<Option<String>>,
    /// When it ends; null is never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<i64>)]
    expires_ms: Wish<Option<i64>>,
    /// A link's downloads at most; null is no limit. The count begins again.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    downloads_max: Wish<Option<u64>>,
}

fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Wish<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Wish::Set)
}

fn wished<T>(wish: Wish<T>) -> Option<T> {
    match wish {
        Wish::Keep => None,
        Wish::Set(value) => Some(value),
    }
}

/// Change a share.
///
/// For owners of its space; a link's password for whoever made it. Another password or access ends every visit of the link.
#[utoipa::path(patch, path = "/shares/{id}", tag = "shares", params(("id" = String, Path)), request_body = ShareChangeBody,
    responses((status = 200, body = ShareBody), Failures))]
pub(crate) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Json(wanted): Json<ShareChangeBody>,
) -> Result<axum::Json<ShareBody>, Failure> {
    let wish = ShareWish {
        access: wanted.access,
        label: wanted.label,
        password: wished(wanted.password).map(|password| password.map(Secret::new)),
        expires_ms: wished(wanted.expires_ms),
        downloads_max: wished(wanted.downloads_max),
    };
    let shared = api.accounts.change_share(&caller.0, share_id(&id)?, wish).await?;
    Ok(axum::Json(ShareBody::managed(&api, &caller.0, shared)))
}

/// Take a share back, or leave what was shared with me.
///
/// Visits of a link end at once, on every node; uploads through it are given up. A download that has begun goes on to its end.
#[utoipa::path(delete, path = "/shares/{id}", tag = "shares", params(("id" = String, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    api.accounts.remove_share(&caller.0, share_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The id of a share in an address. What cannot be one is one that is not there.
pub(super) fn share_id(text: &str) -> Result<Uid, Error> {
    text.parse().map_err(|_| Error::not_found("there is no such share"))
}
