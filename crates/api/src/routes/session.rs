//! Sessions of browsers: signing in and out, and the list of devices.

use super::Failures;
use super::factors::RecoveryCodeBody;
use super::me::{MeBody, me};
use super::passkeys::{AssertionBody, question};
use crate::cookie::{self, Visitor};
use crate::extract::{Caller, From, Json, Path};
use crate::party::Party;
use crate::problem::{Failure, Problem, SecondFactorBody};
use crate::{Api, device};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_auth::passkey::Assertion;
use holdfast_auth::{Second, Secret, Session, SignedIn};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_meta::audit::amend;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Somebody who signs in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInBody {
    /// Sign-in name.
    name: String,
    /// The account's password; an app token is refused.
    password: String,
    /// Stay signed in for 30 days; otherwise until the browser is closed, and 24 hours at most.
    #[serde(default)]
    remember: bool,
    /// The second factor, if the account wants one: a one-time code.
    #[serde(default)]
    code: Option<String>,
    /// Instead of it: the account's recovery code.
    #[serde(default)]
    recovery_code: Option<String>,
    /// Instead of it: the answer of a passkey to the question in the problem.
    #[serde(default)]
    passkey: Option<AssertionBody>,
}

/// Second factors that came with a request.
pub(super) struct Factors {
    code: Option<Secret>,
    recovery: Option<Secret>,
    passkey: Option<Assertion>,
}

impl Factors {
    pub(super) fn read(code: Option<String>, recovery: Option<String>, passkey: Option<AssertionBody>) -> Result<Self> {
        let passkey = passkey.map(Assertion::try_from).transpose()?;
        Ok(Self { code: code.map(Secret::new), recovery: recovery.map(Secret::new), passkey })
    }

    /// The one that came, if any did.
    pub(super) fn second(&self) -> Result<Option<Second<'_>>> {
        match (&self.code, &self.recovery, &self.passkey) {
            (None, None, None) => Ok(None),
            (Some(code), None, None) => Ok(Some(Second::Code(code))),
            (None, Some(recovery), None) => Ok(Some(Second::Recovery(recovery))),
            (None, None, Some(passkey)) => Ok(Some(Second::Passkey(passkey))),
            _ => Err(Error::invalid("send one second factor, not several")),
        }
    }
}

pub(super) type WithCookie<T> = ([(HeaderName, HeaderValue); 1], T);

/// Sign in with a cookie.
///
/// Attempts are limited as with every other way of signing in. If the account wants a second factor, the answer is 401 with a problem of
/// the type `urn:holdfast:second-factor`, and the same request is to be sent again with one. The cookie counts below `/api/` only; a request that changes something
/// and comes from another site's page is refused.
#[utoipa::path(post, path = "/session", tag = "sessions", request_body = SignInBody, security(()), responses(
    (status = 200, body = MeBody, headers(("set-cookie" = String, description = "the session"))), Failures))]
pub(crate) async fn sign_in(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    headers: HeaderMap,
    Json(body): Json<SignInBody>,
) -> Result<Response, Failure> {
    let factors = Factors::read(body.code, body.recovery_code, body.passkey)?;
    let password = Secret::new(body.password);
    let signed_in =
        api.authenticator.sign_in_with(&body.name, &password, factors.second()?, &party, Some(visitor.address)).await?;
    match signed_in {
        SignedIn::Whole(who) => Ok(open(&api, visitor, &headers, &who, body.remember).await?.into_response()),
        SignedIn::NeedsSecond(wanted) => Ok(Problem::second_factor(SecondFactorBody {
            codes: wanted.codes,
            passkey: wanted.passkey.as_ref().map(question),
        })),
    }
}

/// Opens a session for somebody who has proven all that is wanted.
pub(super) async fn open(
    api: &Api,
    visitor: Visitor,
    headers: &HeaderMap,
    who: &Session,
    remember: bool,
) -> Result<WithCookie<axum::Json<MeBody>>, Failure> {
    amend(|note| note.account.clone_from(&who.name));
    // Memberships that waited for a key this account has. Not worth keeping anybody out.
    if let Err(error) = api.authenticator.make_grants(who).await {
        tracing::warn!(?error, account = who.name, "memberships that groups give could not be made");
    }
    let opened = api.accounts.open_session(who, device::label(headers, visitor.address), remember).await?;
    let answer = me(api, who).await?;
    Ok(([(SET_COOKIE, cookie::set(visitor, &opened.secret, remember)?)], axum::Json(answer)))
}

/// Somebody who has forgotten the password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverBody {
    /// Sign-in name.
    name: String,
    /// The account's recovery code; dashes, blanks and capitals do not matter.
    recovery_code: String,
    /// The password from now on.
    password: String,
}

/// Replace a forgotten password with the recovery code.
///
/// Answers a new recovery code, shown this once; the old one is void, and every session of the account has ended. It signs nobody in: that takes the new
/// password, and the second factor if there is one. Attempts are limited as those of passwords are.
#[utoipa::path(post, path = "/session/recovery", tag = "sessions", request_body = RecoverBody, security(()),
    responses((status = 200, body = RecoveryCodeBody), Failures))]
pub(crate) async fn recover(
    State(api): State<Api>,
    From(visitor): From,
    Json(body): Json<RecoverBody>,
) -> Result<axum::Json<RecoveryCodeBody>, Failure> {
    let (code, password) = (Secret::new(body.recovery_code), Secret::new(body.password));
    let reset = api.authenticator.recover(&body.name, &code, password, Some(visitor.address)).await?;
    amend(|note| note.account.clone_from(&body.name));
    Ok(axum::Json(RecoveryCodeBody::new(&reset.recovery_code)))
}

/// Who is signed in, if anybody is.
#[derive(Serialize, ToSchema)]
pub(crate) struct WhoBody {
    /// As `GET /me` tells it; null if nobody is.
    me: Option<MeBody>,
}

/// Who is signed in?
///
/// For a page that begins: without a session, or with one that has ended, the answer is 200 and nobody.
#[utoipa::path(get, path = "/session", tag = "sessions", security((), ("session" = [])),
    responses((status = 200, body = WhoBody), Failures))]
pub(crate) async fn who(
    State(api): State<Api>,
    caller: Option<axum::Extension<Arc<Session>>>,
) -> Result<axum::Json<WhoBody>, Failure> {
    let me = match caller {
        Some(axum::Extension(session)) => Some(me(&api, &session).await?),
        None => None,
    };
    Ok(axum::Json(WhoBody { me }))
}

/// Sign out: end the session this request was made with.
#[utoipa::path(delete, path = "/session", tag = "sessions", responses(
    (status = 204, headers(("set-cookie" = String, description = "takes the cookie away"))), Failures))]
pub(crate) async fn sign_out(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
) -> Result<WithCookie<StatusCode>, Failure> {
    let session = caller.0.browser_session();
    let session =
        session.ok_or_else(|| Error::conflict("there is no session to end: this request came without one"))?;
    match api.accounts.end_session(caller.0.account, session).await {
        // Somebody else ended it meanwhile, which is what was asked for.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        ended => ended?,
    }
    Ok(([(SET_COOKIE, cookie::clear(visitor)?)], StatusCode::NO_CONTENT))
}

/// A browser that is signed in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionBody {
    /// Names it.
    id: i64,
    /// Browser and address at sign-in.
    label: String,
    /// Whether this request came from it.
    current: bool,
    /// When it was opened.
    created_ms: i64,
    /// When it was last used, to the hour or so.
    used_ms: i64,
    /// When it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
}

/// My sessions, the last used first.
#[utoipa::path(get, path = "/sessions", tag = "sessions", responses((status = 200, body = Vec<SessionBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<SessionBody>>, Failure> {
    caller.0.require_full()?;
    let current = caller.0.browser_session();
    let slots = api.accounts.list_sessions(caller.0.account).await?;
    let bodies = slots.into_iter().map(|slot| SessionBody {
        id: slot.id,
        label: slot.label,
        current: current == Some(slot.id),
        created_ms: slot.created_ms,
        used_ms: slot.used_ms.unwrap_or(slot.created_ms),
        expires_ms: slot.expires_ms,
    });
    Ok(axum::Json(bodies.collect()))
}

/// End a session, at once and everywhere.
#[utoipa::path(delete, path = "/sessions/{id}", tag = "sessions", params(("id" = i64, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn end(State(api): State<Api>, caller: Caller, Path(id): Path<i64>) -> Result<StatusCode, Failure> {
    caller.0.require_full()?;
    api.accounts.end_session(caller.0.account, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
