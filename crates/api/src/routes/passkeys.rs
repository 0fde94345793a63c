//! Passkeys: adding, naming and removing them, and signing in with one alone.
//!
//! Options and answers are those of WebAuthn, with bytes as base64url. The page makes the browser's call of them.

use super::factors::{ProofBody, not_the_session};
use super::me::confirm;
use super::session::{WithCookie, open};
use super::{Failures, me::MeBody};
use crate::Api;
use crate::extract::{Caller, From, Json, Path};
use crate::party::Party;
use crate::problem::Failure;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_auth::passkey::{ALGORITHMS, ANSWER_MS, Assertion, PasskeyRequest, PasskeySecret, Registration};
use holdfast_base::Error;
use holdfast_meta::Passkey;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// Bytes in JSON.
#[derive(Clone)]
pub(crate) struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        bytes.map(Self).map_err(|_| serde::de::Error::custom("this is not base64url"))
    }
}

/// A passkey.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PasskeyBody {
    /// Names it.
    id: i64,
    /// What its owner calls it.
    label: String,
    /// Whether it signs in without the password; otherwise it is a second factor.
    alone: bool,
    /// When it was added.
    created_ms: i64,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_ms: Option<i64>,
}

pub(super) fn body(passkey: Passkey) -> PasskeyBody {
    PasskeyBody {
        id: passkey.id,
        label: passkey.label,
        alone: passkey.sealed.is_some(),
        created_ms: passkey.created_ms,
        used_ms: passkey.used_ms,
    }
}

/// A question to an authenticator: what the page asks the browser for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionBody {
    /// To be sent back with the answer.
    ticket: String,
    /// What is to be signed, base64url.
    challenge: String,
    /// The name that passkeys are bound to (the id of the relying party).
    party: String,
    /// Credentials that may answer, or where one is added: that are there already; base64url. Empty: any.
    credentials: Vec<String>,
    /// Input for the extension PRF, base64url.
    secret_input: String,
    /// Algorithms of COSE, the best liked first.
    algorithms: Vec<i64>,
    /// Where one is added: the account's id, base64url.
    user: String,
    /// How long the answer may take.
    timeout_ms: i64,
}

pub(super) fn question(request: &PasskeyRequest) -> QuestionBody {
    QuestionBody {
        ticket: request.ticket.clone(),
        challenge: URL_SAFE_NO_PAD.encode(request.challenge),
        party: request.party.clone(),
        credentials: request.credentials.iter().map(|id| URL_SAFE_NO_PAD.encode(id)).collect(),
        secret_input: URL_SAFE_NO_PAD.encode(request.secret_input),
        algorithms: ALGORITHMS.to_vec(),
        user: URL_SAFE_NO_PAD.encode(request.user.0),
        timeout_ms: ANSWER_MS,
    }
}

/// A passkey's answer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssertionBody {
    /// What came with the question.
    ticket: String,
    /// The credential's id.
    #[schema(value_type = String)]
    credential: Bytes,
    /// `clientDataJSON`.
    #[schema(value_type = String)]
    client_data: Bytes,
    /// `authenticatorData`.
    #[schema(value_type = String)]
    authenticator_data: Bytes,
    /// `signature`.
    #[schema(value_type = String)]
    signature: Bytes,
    /// `userHandle`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    user: Option<Bytes>,
    /// The first result of the extension PRF.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    secret: Option<Bytes>,
}

impl TryFrom<AssertionBody> for Assertion {
    type Error = Error;

    fn try_from(body: AssertionBody) -> Result<Self, Error> {
        Ok(Self {
            ticket: body.ticket,
            credential: body.credential.0,
            client_data: body.client_data.0,
            authenticator_data: body.authenticator_data.0,
            signature: body.signature.0,
            user: body.user.map(|user| user.0),
            secret: body.secret.map(secret).transpose()?,
        })
    }
}

fn secret(bytes: Bytes) -> Result<PasskeySecret, Error> {
    let bytes = Zeroizing::new(bytes.0);
    let secret: Result<[u8; 32], _> = bytes.as_slice().try_into();
    secret.map(Zeroizing::new).map_err(|_| Error::invalid("a passkey's secret has 32 bytes"))
}

/// Ask for a new passkey.
#[utoipa::path(post, path = "/me/passkeys/question", tag = "me", request_body = ProofBody,
    responses((status = 200, body = QuestionBody), Failures))]
pub(crate) async fn ask_new(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    caller: Caller,
    Json(proof): Json<ProofBody>,
) -> Result<axum::Json<QuestionBody>, Failure> {
    confirm(&api, visitor, &caller, proof.password).await?;
    Ok(axum::Json(question(&api.authenticator.ask_new_passkey(&caller.0, &party).await?)))
}

/// A passkey to be added.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPasskeyBody {
    /// What came with the question.
    ticket: String,
    /// What to call it.
    label: String,
    /// `clientDataJSON`.
    #[schema(value_type = String)]
    client_data: Bytes,
    /// `getAuthenticatorData()`.
    #[schema(value_type = String)]
    authenticator_data: Bytes,
    /// The first result of the extension PRF, if there is one: then it signs in without the password.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    secret: Option<Bytes>,
}

/// Add a passkey.
///
/// One whose authenticator yields a secret (the extension PRF) signs in without the password; another is a second factor, and from then on
/// the password alone opens nothing.
#[utoipa::path(post, path = "/me/passkeys", tag = "me", request_body = NewPasskeyBody,
    responses((status = 201, body = PasskeyBody), Failures))]
pub(crate) async fn add(
    State(api): State<Api>,
    Party(party): Party,
    caller: Caller,
    Json(new): Json<NewPasskeyBody>,
) -> Result<(StatusCode, axum::Json<PasskeyBody>), Failure> {
    let answer = Registration {
        ticket: new.ticket,
        label: new.label,
        client_data: new.client_data.0,
        authenticator_data: new.authenticator_data.0,
        secret: new.secret.map(secret).transpose()?,
    };
    let added = api.authenticator.add_passkey(&caller.0, &party, answer).await.map_err(not_the_session)?;
    Ok((StatusCode::CREATED, axum::Json(body(added))))
}

/// Another name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasskeyNameBody {
    /// What to call it.
    label: String,
}

/// Give a passkey another name.
#[utoipa::path(patch, path = "/me/passkeys/{id}", tag = "me", params(("id" = i64, Path)), request_body = PasskeyNameBody,
    responses((status = 204), Failures))]
pub(crate) async fn rename(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<i64>,
    Json(name): Json<PasskeyNameBody>,
) -> Result<StatusCode, Failure> {
    api.accounts.rename_passkey(&caller.0, id, name.label).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a passkey: it opens nothing any more, at once and everywhere.
#[utoipa::path(post, path = "/me/passkeys/{id}/remove", tag = "me", params(("id" = i64, Path)), request_body = ProofBody,
    responses((status = 204), Failures))]
pub(crate) async fn remove(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    Path(id): Path<i64>,
    Json(proof): Json<ProofBody>,
) -> Result<StatusCode, Failure> {
    confirm(&api, visitor, &caller, proof.password).await?;
    api.accounts.remove_passkey(&caller.0, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ask for any passkey that signs in without a password.
#[utoipa::path(post, path = "/session/passkey/question", tag = "sessions", security(()),
    responses((status = 200, body = QuestionBody), Failures))]
pub(crate) async fn ask(State(api): State<Api>, Party(party): Party) -> Result<axum::Json<QuestionBody>, Failure> {
    Ok(axum::Json(question(&api.authenticator.ask_passkey(&party).await?)))
}

/// Somebody who signs in with a passkey alone.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasskeySignInBody {
    /// The answer.
    answer: AssertionBody,
    /// Stay signed in for 30 days.
    #[serde(default)]
    remember: bool,
}

/// Sign in with a passkey, with a cookie.
#[utoipa::path(post, path = "/session/passkey", tag = "sessions", request_body = PasskeySignInBody, security(()), responses(
    (status = 200, body = MeBody, headers(("set-cookie" = String, description = "the session"))), Failures))]
pub(crate) async fn sign_in(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    headers: HeaderMap,
    Json(wanted): Json<PasskeySignInBody>,
) -> Result<WithCookie<axum::Json<MeBody>>, Failure> {
    let who = api.authenticator.sign_in_with_passkey(&wanted.answer.try_into()?, &party).await?;
    open(&api, visitor, &headers, &who, wanted.remember).await
}
