//! Signing in by a provider (OpenID Connect), and linking an account with who one is there.
//!
//! A page begins and gets the address to go to; what is to be remembered is sealed in a cookie of this browser. The provider sends
//! the browser back to the page `/signin`, which hands code and state in. So nothing is changed by a GET, no other site's page can begin or end a
//! sign-in, and any node can answer.

use super::Failures;
use super::factors::not_the_session;
use super::me::{MeBody, confirm};
use super::passkeys::{AssertionBody, question};
use super::session::{Factors, open};
use crate::Api;
use crate::cookie::{self, Visitor};
use crate::extract::{Caller, From, Json, Path};
use crate::federation::SignOut;
use crate::party::Party;
use crate::problem::{Failure, Problem, SecondFactorBody};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_auth::passkey::RelyingParty;
use holdfast_auth::{Arrival, Federated, Secret, Session, SignedIn};
use holdfast_base::{AccountId, Error};
use holdfast_meta::{Identity, NewIdentity};
use holdfast_oidc::Begun;
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Time at the provider: 10 minutes.
const FLOW_MS: i64 = 600_000;

/// Longest code or state that is looked at.
const ANSWER_BYTES_MAX: usize = 4 << 10;

const FLOW: &str = "federated, at the provider";

/// What a sign-in began with.
#[derive(Serialize, Deserialize)]
struct Flow {
    provider: String,
    begun: Begun,
    /// Whose account is to be linked; none signs in.
    link: Option<AccountId>,
}

/// Ways to sign in besides name and password.
#[derive(Serialize, ToSchema)]
pub(crate) struct WaysBody {
    /// Providers, in the order in which to offer them.
    providers: Vec<ProviderBody>,
    /// Whether a provider's people need no passphrase, since the operator can open their accounts.
    escrow: bool,
}

/// A provider.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderBody {
    /// Names it.
    id: String,
    /// What people know it as.
    name: String,
    /// What signing out of the drive does there: `keep` (nothing), `offer` or `always`.
    #[schema(value_type = String)]
    sign_out: SignOut,
}

/// Ways to sign in besides name and password.
#[utoipa::path(get, path = "/sign-in", tag = "sessions", security(()),
    responses((status = 200, body = WaysBody), Failures))]
pub(crate) async fn ways(State(api): State<Api>) -> axum::Json<WaysBody> {
    let of = |trusted: &crate::federation::Trusted| ProviderBody {
        id: trusted.id.clone(),
        name: trusted.name.clone(),
        sign_out: trusted.sign_out,
    };
    axum::Json(WaysBody {
        providers: api.federation.providers.iter().map(of).collect(),
        escrow: api.federation.escrow.is_some(),
    })
}

/// With whom to sign in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginBody {
    /// The provider's id.
    provider: String,
}

/// Where to go.
#[derive(Serialize, ToSchema)]
pub(crate) struct GoBody {
    /// The provider's address for this browser; it comes back to the page `/signin`.
    url: String,
}

/// Begin to sign in by a provider.
#[utoipa::path(post, path = "/session/provider", tag = "sessions", request_body = BeginBody, security(()),
    responses((status = 200, body = GoBody), Failures))]
pub(crate) async fn begin(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    Json(wanted): Json<BeginBody>,
) -> Result<Response, Failure> {
    go(&api, visitor, &party, &wanted.provider, None).await
}

/// Where to go to sign out.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaveBody {
    /// The provider's address for this browser, which comes back to the page `/signin`; null if signing out there is not possible, or not wanted by the operator.
    url: Option<String>,
}

/// Where a browser signs out at a provider.
///
/// It ends nothing by itself: the drive's session is ended by `DELETE /session`, and the provider's by its own page.
#[utoipa::path(post, path = "/session/provider/leave", tag = "sessions", request_body = BeginBody, security(()),
    responses((status = 200, body = LeaveBody), Failures))]
pub(crate) async fn leave(
    State(api): State<Api>,
    Party(party): Party,
    Json(wanted): Json<BeginBody>,
) -> Result<axum::Json<LeaveBody>, Failure> {
    let trusted = api.federation.get(&wanted.provider)?;
    let url = match trusted.sign_out {
        SignOut::Keep => None,
        SignOut::Offer | SignOut::Always => trusted.provider.leave(&format!("{}/signin", party.origin)).await?,
    };
    Ok(axum::Json(LeaveBody { url }))
}

async fn go(
    api: &Api,
    visitor: Visitor,
    party: &RelyingParty,
    provider: &str,
    link: Option<AccountId>,
) -> Result<Response, Failure> {
    let trusted = api.federation.get(provider)?;
    let (url, begun) = trusted.provider.begin(&format!("{}/signin", party.origin)).await?;
    let flow = Flow { provider: trusted.id.clone(), begun, link };
    let ticket = api.authenticator.issue_ticket(FLOW, flow, FLOW_MS).await?;
    let cookie = cookie::set_flow(visitor, Some(&ticket))?;
    Ok(([(SET_COOKIE, cookie)], axum::Json(GoBody { url })).into_response())
}

/// What the browser came back with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// `code`.
    code: String,
    /// `state`.
    state: String,
    /// `iss`, if the provider says it.
    #[serde(default)]
    issuer: Option<String>,
    /// Stay signed in for 30 days.
    #[serde(default)]
    remember: bool,
}

/// How it goes on.
#[derive(Serialize, ToSchema)]
pub(crate) struct ArrivalBody {
    /// Who is signed in now.
    #[serde(skip_serializing_if = "Option::is_none")]
    me: Option<MeBody>,
    /// A new account's recovery code: shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_code: Option<String>,
    /// The passphrase that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<AskedBody>,
}

/// A passphrase that is asked for.
#[derive(Serialize, ToSchema)]
pub(crate) struct AskedBody {
    /// To be sent back with it.
    ticket: String,
    /// Whose it is.
    account: String,
    /// Whether it is to be chosen now.
    first: bool,
}

/// Come back from a provider.
///
/// Answers a session, or asks for the drive passphrase, which opens the account's key: the provider has none.
#[utoipa::path(post, path = "/session/provider/answer", tag = "sessions", request_body = AnswerBody, security(()),
    responses((status = 200, body = ArrivalBody), Failures))]
pub(crate) async fn answer(
    State(api): State<Api>,
    From(visitor): From,
    headers: HeaderMap,
    Json(answer): Json<AnswerBody>,
) -> Result<Response, Failure> {
    let (person, link) = arrived(&api, visitor, &headers, &answer).await?;
    if link.is_some() {
        return Err(Error::conflict("this was begun to link an account, not to sign in").into());
    }
    let response = match api.authenticator.arrive(person, api.federation.escrow.as_ref()).await? {
        Arrival::In(who, code) => come_in(&api, visitor, &headers, &who, answer.remember, code).await?,
        Arrival::Passphrase { ticket, account, first } => {
            let asked = AskedBody { ticket, account, first };
            axum::Json(ArrivalBody { me: None, recovery_code: None, passphrase: Some(asked) }).into_response()
        }
    };
    over(visitor, response)
}

/// The passphrase of somebody who came from a provider.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassphraseBody {
    /// What came with the question.
    ticket: String,
    /// The drive passphrase; chosen now, if it was asked for so.
    passphrase: String,
    /// Stay signed in for 30 days.
    #[serde(default)]
    remember: bool,
    /// A second factor, if the account wants one.
    #[serde(default)]
    code: Option<String>,
    /// Instead of it: the recovery code.
    #[serde(default)]
    recovery_code: Option<String>,
    /// Instead of it: the answer of a passkey to the question in the problem.
    #[serde(default)]
    passkey: Option<AssertionBody>,
}

/// Open the account with its drive passphrase, after a provider has said whose it is.
#[utoipa::path(post, path = "/session/provider/passphrase", tag = "sessions", request_body = PassphraseBody, security(()),
    responses((status = 200, body = ArrivalBody), Failures))]
pub(crate) async fn passphrase(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    headers: HeaderMap,
    Json(body): Json<PassphraseBody>,
) -> Result<Response, Failure> {
    let factors = Factors::read(body.code, body.recovery_code, body.passkey)?;
    let passphrase = Secret::new(body.passphrase);
    let peer = Some(visitor.address);
    let (signed_in, code) =
        api.authenticator.arrive_with(&body.ticket, &passphrase, factors.second()?, &party, peer).await?;
    match signed_in {
        SignedIn::Whole(who) => come_in(&api, visitor, &headers, &who, body.remember, code).await,
        SignedIn::NeedsSecond(wanted) => Ok(Problem::second_factor(SecondFactorBody {
            codes: wanted.codes,
            passkey: wanted.passkey.as_ref().map(question),
        })),
    }
}

async fn come_in(
    api: &Api,
    visitor: Visitor,
    headers: &HeaderMap,
    who: &Session,
    remember: bool,
    code: Option<Secret>,
) -> Result<Response, Failure> {
    let (cookie, axum::Json(me)) = open(api, visitor, headers, who, remember).await?;
    let recovery_code = code.map(|code| code.expose().to_owned());
    Ok((cookie, axum::Json(ArrivalBody { me: Some(me), recovery_code, passphrase: None })).into_response())
}

/// An identity that is linked.
#[derive(Serialize, ToSchema)]
pub(crate) struct IdentityBody {
    /// Names it.
    id: i64,
    /// The provider: what people know it as, or its address if it is no longer configured.
    provider: String,
    /// Who it is there.
    label: String,
    /// When it was linked.
    created_ms: i64,
    /// When it last signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_ms: Option<i64>,
}

fn identity(api: &Api, identity: Identity) -> IdentityBody {
    let known = api.federation.providers.iter().find(|trusted| trusted.provider.issuer() == identity.issuer);
    IdentityBody {
        id: identity.id,
        provider: known.map_or(identity.issuer, |trusted| trusted.name.clone()),
        label: identity.label,
        created_ms: identity.created_ms,
        used_ms: identity.used_ms,
    }
}

/// Who I am at providers.
#[utoipa::path(get, path = "/me/identities", tag = "me", responses((status = 200, body = Vec<IdentityBody>), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<IdentityBody>>, Failure> {
    caller.0.require_full()?;
    let all = api.accounts.identities(caller.0.account).await?;
    Ok(axum::Json(all.into_iter().map(|one| identity(&api, one)).collect()))
}

/// With whom to link my account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginLinkBody {
    /// The provider's id.
    provider: String,
    /// The account's password.
    password: String,
}

/// Begin to link my account with who I am at a provider.
#[utoipa::path(post, path = "/me/identities/begin", tag = "me", request_body = BeginLinkBody,
    responses((status = 200, body = GoBody), Failures))]
pub(crate) async fn begin_link(
    State(api): State<Api>,
    From(visitor): From,
    Party(party): Party,
    caller: Caller,
    Json(wanted): Json<BeginLinkBody>,
) -> Result<Response, Failure> {
    confirm(&api, visitor, &caller, wanted.password).await?;
    go(&api, visitor, &party, &wanted.provider, Some(caller.0.account)).await
}

/// Come back from a provider, and link my account.
#[utoipa::path(post, path = "/me/identities", tag = "me", request_body = AnswerBody,
    responses((status = 201, body = IdentityBody), Failures))]
pub(crate) async fn link(
    State(api): State<Api>,
    From(visitor): From,
    caller: Caller,
    headers: HeaderMap,
    Json(answer): Json<AnswerBody>,
) -> Result<Response, Failure> {
    let (person, link) =
        arrived(&api, visitor, &headers, &answer).await.map_err(|failure| not_the_session(failure.0))?;
    if link != Some(caller.0.account) {
        return Err(Error::forbidden("this was begun by another account, or to sign in: begin again").into());
    }
    let new = NewIdentity { issuer: person.issuer, subject: person.subject, label: person.label };
    let linked = api.accounts.link(&caller.0, new).await?;
    over(visitor, (StatusCode::CREATED, axum::Json(identity(&api, linked))).into_response())
}

/// Take a link away.
#[utoipa::path(delete, path = "/me/identities/{id}", tag = "me", params(("id" = i64, Path)),
    responses((status = 204), Failures))]
pub(crate) async fn unlink(State(api): State<Api>, caller: Caller, Path(id): Path<i64>) -> Result<StatusCode, Failure> {
    api.accounts.unlink(&caller.0, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who came back, after everything was checked.
async fn arrived(
    api: &Api,
    visitor: Visitor,
    headers: &HeaderMap,
    answer: &AnswerBody,
) -> Result<(Federated, Option<AccountId>), Failure> {
    let lost = || Error::conflict("this sign-in was not begun in this browser, or took too long: begin again");
    if answer.code.len() > ANSWER_BYTES_MAX || answer.state.len() > ANSWER_BYTES_MAX {
        return Err(Error::invalid("the provider's answer is too long").into());
    }
    let ticket = cookie::read_flow(headers, visitor.encrypted).ok_or_else(lost)?;
    let flow: Flow = api.authenticator.spend_ticket(FLOW, ticket.expose()).await.map_err(|_| lost())?;
    let trusted = api.federation.get(&flow.provider)?;
    // Both are sealed or random: nothing is learnt from how long comparing takes.
    if flow.begun.state != answer.state {
        return Err(Error::conflict("the provider answered another request: begin again").into());
    }
    if answer.issuer.as_deref().is_some_and(|issuer| issuer != trusted.provider.issuer()) {
        return Err(Error::conflict("another provider answered: begin again").into());
    }
    let now_ms = api.authenticator.now_ms();
    let person = trusted.provider.finish(&flow.begun, &answer.code, now_ms).await?;
    Ok((trusted.admit(person)?, flow.link))
}

/// The sign-in is over: its cookie goes.
fn over(visitor: Visitor, mut response: Response) -> Result<Response, Failure> {
    response.headers_mut().append(SET_COOKIE, cookie::set_flow(visitor, None)?);
    Ok(response)
}
