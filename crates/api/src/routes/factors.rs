//! What the caller signs in with besides the password: one-time codes, the recovery code, and the list of it all.

use super::passkeys::{PasskeyBody, body as passkey_body};
use super::{Failures, me::confirm};
use crate::Api;
use crate::extract::{Caller, From, Json};
use crate::party::Party;
use crate::problem::Failure;
use axum::extract::State;
use holdfast_auth::{Second, Secret};
use holdfast_base::{Error, ErrorKind};
use holdfast_meta::SlotKind;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What I sign in with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactorsBody {
    /// Whether the password alone is not enough: WebDAV and programs then need an app token.
    second_factor: bool,
    /// When one-time codes were switched on; absent if they are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    codes_since_ms: Option<i64>,
    /// When the recovery code was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_code_ms: Option<i64>,
    /// Whether the operator of the drive can open the account, having switched escrow on.
    escrow: bool,
    /// Passkeys, the oldest first.
    passkeys: Vec<PasskeyBody>,
}

/// What I sign in with besides my password.
#[utoipa::path(get, path = "/me/factors", tag = "me", responses((status = 200, body = FactorsBody), Failures))]
pub(crate) async fn show(State(api): State<Api>, caller: Caller) -> Result<axum::Json<FactorsBody>, Failure> {
    caller.0.require_full()?;
    let factors = api.accounts.factors(caller.0.account).await?;
    let slots = api.accounts.credentials(caller.0.account).await?;
    let slot = |kind| slots.iter().find(move |slot| slot.kind == kind);
    Ok(axum::Json(FactorsBody {
        second_factor: factors.needs_second(),
        codes_since_ms: factors.totp.as_ref().map(|totp| totp.created_ms),
        recovery_code_ms: slot(SlotKind::Recovery).map(|slot| slot.created_ms),
        escrow: slot(SlotKind::Escrow).is_some(),
        passkeys: factors.passkeys.into_iter().map(passkey_body).collect(),
    }))
}

/// The password, to prove that it is still the account's owner who asks.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProofBody {
    /// The account's password.
    pub(super) password: String,
}

/// Codes about to be switched on.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewCodesBody {
    /// The secret in base32, for who types it; shown this once.
    secret: String,
    /// The same as a QR code has it.
    uri: String,
    /// To be sent back with the first code, within 15 minutes.
    ticket: String,
}

/// Make the secret of one-time codes.
///
/// Nothing is switched on until the first code is sent.
#[utoipa::path(post, path = "/me/codes", tag = "me", request_body = ProofBody,
    responses((status = 200, body = NewCodesBody), Failures))]
pub(crate) async fn begin(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    Json(proof): Json<ProofBody>,
) -> Result<axum::Json<NewCodesBody>, Failure> {
    confirm(&api, visitor, &caller, proof.password).await?;
    let new = api.accounts.begin_codes(&caller.0).await?;
    let (secret, uri) = (new.secret.expose().to_owned(), new.uri.expose().to_owned());
    Ok(axum::Json(NewCodesBody { secret, uri, ticket: new.ticket }))
}

/// The first code.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirstCodeBody {
    /// What came with the secret.
    ticket: String,
    /// The code that the authenticator shows now.
    code: String,
}

/// Switch one-time codes on.
///
/// From then on the password alone opens nothing: not WebDAV, nor this API; app tokens go on.
#[utoipa::path(put, path = "/me/codes", tag = "me", request_body = FirstCodeBody, responses((status = 204), Failures))]
pub(crate) async fn switch_on(
    State(api): State<Api>,
    caller: Caller,
    Json(first): Json<FirstCodeBody>,
) -> Result<StatusCode, Failure> {
    api.accounts.confirm_codes(&caller.0, &first.ticket, &Secret::new(first.code)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastCodeBody {
    /// A code that was not used before.
    #[serde(default)]
    code: Option<String>,
    /// The account's recovery code.
    #[serde(default)]
    recovery_code: Option<String>,
}

/// Switch one-time codes off.
#[utoipa::path(post, path = "/me/codes/remove", tag = "me", request_body = LastCodeBody,
    responses((status = 204), Failures))]
pub(crate) async fn switch_off(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    caller: Caller,
    Json(last): Json<LastCodeBody>,
) -> Result<StatusCode, Failure> {
    caller.0.require_full()?;
    let (code, recovery) = (last.code.map(Secret::new), last.recovery_code.map(Secret::new));
    let second = match (&code, &recovery) {
        (Some(code), None) => Second::Code(code),
        (None, Some(recovery)) => Second::Recovery(recovery),
        _ => return Err(Error::invalid("send a code or the recovery code").into()),
    };
    let checked = api.authenticator.check_second(&caller.0, second, &party, Some(visitor.address)).await;
    checked.map_err(not_the_session)?;
    api.accounts.remove_codes(&caller.0).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new recovery code.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecoveryCodeBody {
    /// Shown this once.
    recovery_code: String,
}

impl RecoveryCodeBody {
    pub(super) fn new(code: &Secret) -> Self {
        Self { recovery_code: code.expose().to_owned() }
    }
}

/// Make a new recovery code; the old one no longer works.
#[utoipa::path(post, path = "/me/recovery-code", tag = "me", request_body = ProofBody,
    responses((status = 200, body = RecoveryCodeBody), Failures))]
pub(crate) async fn renew_recovery_code(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    Json(proof): Json<ProofBody>,
) -> Result<axum::Json<RecoveryCodeBody>, Failure> {
    confirm(&api, visitor, &caller, proof.password).await?;
    let code = api.accounts.renew_recovery_code(&caller.0).await?;
    Ok(axum::Json(RecoveryCodeBody::new(&code)))
}

/// 401 would say that the session has ended.
pub(super) fn not_the_session(error: Error) -> Error {
    if error.kind() == ErrorKind::Unauthenticated { Error::forbidden(error.message()) } else { error }
}
