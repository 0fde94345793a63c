//! Passkeys (WebAuthn): adding one, signing in with one alone, and one as a second factor.
//!
//! A passkey is a key pair that an authenticator keeps, bound to the drive's own name. If the authenticator also yields a secret (the
//! extension PRF), that secret opens a slot of its own with the account's key, and the passkey signs in without a password, after its
//! owner was verified by the authenticator. If not, nothing it tells could open the account's key: it is a second factor.
//!
//! What is asked is a sealed ticket whose hash is the challenge: any node can check the answer, nothing is kept of
//! questions nobody answers, and an answered one is noted, so that no answer counts twice. Attestation is not asked for and not looked
//! at: who adds a passkey is signed in, and what device it is on is theirs to choose.

mod answer;
mod cose;

pub use answer::{Assertion, PasskeySecret, Registration, RelyingParty};
pub use cose::ALGORITHMS;

use crate::accounts::{Accounts, LABEL_BYTES_MAX};
use crate::authenticator::Authenticator;
use crate::second::wrong;
use crate::{Scope, Session};
use answer::{Checked, Purpose};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_base::{AccountId, Error, ErrorKind, Result, Uid};
use holdfast_meta::{Account, Factors, NewPasskey, Passkey, Ticket};
use holdfast_seal::keys::{Argon2Params, CredentialKind, SlotContext, open_slot, seal_slot};
use holdfast_seal::proof::{EcdsaForm, sha256, verify};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Passkeys of one account at most.
pub const PASSKEYS_PER_ACCOUNT_MAX: usize = 20;

/// Time to answer a question: 5 minutes, the longest that WebAuthn recommends.
pub const ANSWER_MS: i64 = 5 * 60_000;

/// What authenticators derive the secret from; the same for all, so that one can be asked before it is known whose it is.
const SECRET_INPUT: &[u8] = b"holdfast account key v1";

const ADD_LABEL: &str = "passkey, to be added";
const ALONE_LABEL: &str = "passkey, alone";
const SECOND_LABEL: &str = "passkey, second factor";

/// A question to an authenticator.
#[derive(Debug)]
pub struct PasskeyRequest {
    /// To be handed back with the answer.
    pub ticket: String,
    /// What is to be signed.
    pub challenge: [u8; 32],
    /// The drive's name.
    pub party: String,
    /// Credentials that may answer, or that are not to be added again; empty: any.
    pub credentials: Vec<Vec<u8>>,
    /// Input for the secret.
    pub secret_input: [u8; 32],
    /// Whose the passkey will be, where one is added.
    pub user: Uid,
}

#[derive(Serialize, Deserialize)]
struct Question {
    account: Option<AccountId>,
    party: String,
}

impl Authenticator {
    /// Asks for a new passkey.
    pub async fn ask_new_passkey(&self, who: &Session, party: &RelyingParty) -> Result<PasskeyRequest> {
        who.require_full()?;
        let factors = self.accounts().factors(who.account).await?;
        if factors.passkeys.len() >= PASSKEYS_PER_ACCOUNT_MAX {
            let message =
                format!("an account has {PASSKEYS_PER_ACCOUNT_MAX} passkeys at most: remove one no longer used");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.ask(ADD_LABEL, Some(who), &factors, party).await
    }

    /// Adds the passkey that answered. It is a way in of its own if its authenticator yields a secret and verified its owner.
    pub async fn add_passkey(&self, who: &Session, party: &RelyingParty, answer: Registration) -> Result<Passkey> {
        who.require_full()?;
        if answer.label.is_empty() || answer.label.len() > LABEL_BYTES_MAX || answer.label.chars().any(char::is_control)
        {
            let message = format!("a passkey's name has 1 to {LABEL_BYTES_MAX} bytes and no control characters");
            return Err(Error::invalid(message));
        }
        let (ticket, question) = self.question(ADD_LABEL, &answer.ticket).await?;
        if question.account != Some(who.account) || question.party != party.id {
            return Err(wrong("this question was put to somebody else: begin again"));
        }
        let checked =
            answer::check(&answer.ticket, Purpose::Create, party, &answer.client_data, &answer.authenticator_data)?;
        let (credential, public_key) =
            checked.credential.ok_or_else(|| Error::invalid("the authenticator sent no passkey"))?;
        cose::parse(&public_key)?;
        let secret = answer.secret.filter(|_| checked.verified);
        let sealed = secret.map(|secret| {
            let lookup = lookup(&credential);
            seal_slot(context(who.account_uid, &lookup), &secret[..], who.key(), Argon2Params::default())
        });
        let new = NewPasskey {
            credential,
            public_key,
            label: answer.label,
            sealed: sealed.transpose()?,
            counter: checked.counter,
        };
        self.catalogue().add_passkey(who.account, new, ticket, self.now_ms()).await
    }

    /// Asks for any passkey that signs in alone.
    pub async fn ask_passkey(&self, party: &RelyingParty) -> Result<PasskeyRequest> {
        self.ask(ALONE_LABEL, None, &Factors::default(), party).await
    }

    /// Signs in with a passkey alone.
    pub async fn sign_in_with_passkey(&self, answer: &Assertion, party: &RelyingParty) -> Result<Arc<Session>> {
        let (ticket, question) = self.question(ALONE_LABEL, &answer.ticket).await?;
        let found = self.catalogue().passkey_by_credential(&answer.credential).await?;
        let (account, passkey) = found.filter(|_| question.party == party.id).ok_or_else(unknown)?;
        if answer.user.as_deref().is_some_and(|user| user != account.uid.0) {
            return Err(unknown());
        }
        let checked = signed(&passkey, answer, party)?;
        let (Some(sealed), Some(secret), true) = (&passkey.sealed, &answer.secret, checked.verified) else {
            return Err(wrong("this passkey is a second factor only: sign in with your password first"));
        };
        let lookup = lookup(&passkey.credential);
        let key = open_slot(context(account.uid, &lookup), &secret[..], sealed).map_err(|_| unknown())?;
        check_account(&account, &key.public())?;
        self.count(&passkey, &checked, ticket).await?;
        Ok(Arc::new(Session::new(&account, Scope::default(), key)))
    }

    /// Asks for one of an account's passkeys as its second factor.
    pub(crate) async fn ask_second(
        &self,
        who: &Session,
        factors: &Factors,
        party: &RelyingParty,
    ) -> Result<PasskeyRequest> {
        self.ask(SECOND_LABEL, Some(who), factors, party).await
    }

    /// Checks a passkey as a second factor.
    pub(crate) async fn check_passkey(
        &self,
        who: &Session,
        factors: &Factors,
        answer: &Assertion,
        party: &RelyingParty,
    ) -> Result<()> {
        let (ticket, question) = self.question(SECOND_LABEL, &answer.ticket).await?;
        let own = factors.passkeys.iter().find(|passkey| passkey.credential == answer.credential);
        let asked = question.account == Some(who.account) && question.party == party.id;
        let passkey = own.filter(|_| asked).ok_or_else(unknown)?;
        let checked = signed(passkey, answer, party)?;
        self.count(passkey, &checked, ticket).await
    }

    async fn ask(
        &self,
        label: &str,
        who: Option<&Session>,
        factors: &Factors,
        party: &RelyingParty,
    ) -> Result<PasskeyRequest> {
        let question = Question { account: who.map(|who| who.account), party: party.id.clone() };
        let ticket = self.tickets().issue(label, question, self.now_ms().saturating_add(ANSWER_MS)).await?;
        Ok(PasskeyRequest {
            challenge: sha256(ticket.as_bytes()),
            ticket,
            party: party.id.clone(),
            credentials: factors.passkeys.iter().map(|passkey| passkey.credential.clone()).collect(),
            secret_input: sha256(SECRET_INPUT),
            user: who.map_or(Uid([0; 16]), |who| who.account_uid),
        })
    }

    async fn question(&self, label: &str, ticket: &str) -> Result<(Ticket, Question)> {
        self.tickets().open(label, ticket, self.now_ms()).await
    }

    /// Notes the answer; one whose counter went back is of a copy, or was copied from.
    async fn count(&self, passkey: &Passkey, checked: &Checked, ticket: Ticket) -> Result<()> {
        if self.catalogue().use_passkey(passkey.id, checked.counter, ticket, self.now_ms()).await? {
            return Ok(());
        }
        tracing::warn!(
            passkey = passkey.id,
            counter = checked.counter,
            "a passkey's counter went back: it may have been copied"
        );
        Err(wrong("this passkey was refused, since it may have been copied: remove it and add it anew"))
    }
}

impl Accounts {
    /// Gives a passkey another name.
    pub async fn rename_passkey(&self, who: &Session, id: i64, label: String) -> Result<()> {
        who.require_full()?;
        if label.is_empty() || label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
            let message = format!("a passkey's name has 1 to {LABEL_BYTES_MAX} bytes and no control characters");
            return Err(Error::invalid(message));
        }
        self.catalogue.rename_passkey(who.account, id, label).await
    }

    /// Removes a passkey: it opens nothing any more, at once.
    pub async fn remove_passkey(&self, who: &Session, id: i64) -> Result<()> {
        who.require_full()?;
        self.catalogue.remove_passkey(who.account, id).await
    }
}

/// Whether an account may come in with a key.
pub(crate) fn check_account(account: &Account, public: &[u8; 32]) -> Result<()> {
    if account.disabled {
        return Err(Error::forbidden("this account is disabled: ask an administrator"));
    }
    if *public != account.public_key {
        return Err(Error::damaged(
            "the account's public key does not belong to its private key: the catalogue is damaged",
        ));
    }
    Ok(())
}

/// The answer of a known passkey, its signature checked.
fn signed(passkey: &Passkey, answer: &Assertion, party: &RelyingParty) -> Result<Checked> {
    let checked = answer::check(&answer.ticket, Purpose::Get, party, &answer.client_data, &answer.authenticator_data)?;
    let key = cose::parse(&passkey.public_key)?;
    let message = [&answer.authenticator_data[..], &sha256(&answer.client_data)].concat();
    verify(&key, EcdsaForm::Asn1, &message, &answer.signature).map_err(|_| unknown())?;
    Ok(checked)
}

fn lookup(credential: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(credential)
}

fn context(account: Uid, lookup: &str) -> SlotContext<'_> {
    SlotContext { kind: CredentialKind::Passkey, account, lookup }
}

fn unknown() -> Error {
    wrong("this passkey is not known here, or its answer is wrong")
}

/// For [`crate::fuzzed`].
pub(crate) mod probe {
    use super::answer::{Purpose, check};
    use super::{RelyingParty, cose};

    pub(crate) fn cose(bytes: &[u8]) -> (bool, Option<usize>) {
        (cose::parse(bytes).is_ok(), cose::first(bytes).ok().map(<[u8]>::len))
    }

    pub(crate) fn answer(party: &RelyingParty, ticket: &str, client_data: &[u8], authenticator_data: &[u8]) -> bool {
        let fits = |purpose| check(ticket, purpose, party, client_data, authenticator_data).is_ok();
        let (made, proved) = (fits(Purpose::Create), fits(Purpose::Get));
        assert!(!(made && proved), "an answer fits two kinds of question");
        made || proved
    }
}
