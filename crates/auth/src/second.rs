//! Signing in with a password and, where the account wants one, a second factor.
//!
//! The password comes first: it opens the account's key, and the secret of the codes is sealed under that. Where no second factor can be
//! asked for (WebDAV, programs), the password of such an account is refused and an app token wanted. Attempts at a code wait in the same
//! queue and count under the same limits as attempts at a password, so that they cannot be made side by side; a right password alone does
//! not clear the counts.

use crate::accounts::open_recovery;
use crate::attempts::AddressGroup;
use crate::authenticator::{Authenticator, wrong_password};
use crate::passkey::{Assertion, PasskeyRequest, RelyingParty};
use crate::{Credential, Secret, Session};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_meta::Factors;
use std::net::IpAddr;
use std::sync::Arc;

/// What is presented beside the password.
#[derive(Debug, Clone, Copy)]
pub enum Second<'a> {
    /// A one-time code.
    Code(&'a Secret),
    /// The account's recovery code.
    Recovery(&'a Secret),
    /// A passkey's answer.
    Passkey(&'a Assertion),
}

/// How a sign-in with a password went, if the password was right.
#[derive(Debug)]
pub enum SignedIn {
    /// Nothing more is needed.
    Whole(Arc<Session>),
    /// A second factor is needed.
    NeedsSecond(NeedsSecond),
}

/// Second factors an account has.
#[derive(Debug)]
pub struct NeedsSecond {
    /// One-time codes.
    pub codes: bool,
    /// A question to its passkeys, if it has any.
    pub passkey: Option<PasskeyRequest>,
}

impl Authenticator {
    /// Signs in with name and password, and the second factor if the account wants one. `party` is what passkeys know the drive as.
    pub async fn sign_in_with(
        &self,
        name: &str,
        password: &Secret,
        second: Option<Second<'_>>,
        party: &RelyingParty,
        peer: Option<IpAddr>,
    ) -> Result<SignedIn> {
        let session = self.check_password(name, password, peer).await?;
        if !session.awaits_second {
            return Ok(SignedIn::Whole(session));
        }
        let Some(second) = second else {
            let factors = self.accounts().factors(session.account).await?;
            let passkey = if factors.passkeys.is_empty() {
                None
            } else {
                Some(self.ask_second(&session, &factors, party).await?)
            };
            return Ok(SignedIn::NeedsSecond(NeedsSecond { codes: factors.totp.is_some(), passkey }));
        };
        self.check_second(&session, second, party, peer).await?;
        self.limiter().succeeded(name, AddressGroup::of(peer)).await?;
        Ok(SignedIn::Whole(Arc::new(session.whole())))
    }

    /// Checks a password and nothing else: for somebody who is signed in and is to prove that they are still there.
    pub async fn check_password(&self, name: &str, password: &Secret, peer: Option<IpAddr>) -> Result<Arc<Session>> {
        // A token in the place of the password opens no session and changes no credential.
        if crate::Token::parse(password.expose()).is_some() {
            return Err(wrong_password());
        }
        let credential = Credential::Basic { name: name.to_owned(), secret: password.clone() };
        self.check(&credential, peer).await
    }

    /// Checks a second factor of somebody whose account's key is open.
    pub async fn check_second(
        &self,
        who: &Session,
        second: Second<'_>,
        party: &RelyingParty,
        peer: Option<IpAddr>,
    ) -> Result<()> {
        let from = AddressGroup::of(peer);
        self.limiter().check(&who.name, from).await?;
        let turn = self.worker().turn().await?;
        self.limiter().check(&who.name, from).await?;
        let factors = self.accounts().factors(who.account).await?;
        let checked = self.check_one(who, &factors, second, party).await;
        if let Some(error) = checked.as_ref().err().filter(|error| error.kind() == ErrorKind::Unauthenticated) {
            self.note_second_refused(&who.name, peer, error);
            self.limiter().failed(&who.name, from).await?;
        }
        // Kept until the failure is counted: the next in the queue must see it.
        drop(turn);
        checked
    }

    async fn check_one(
        &self,
        who: &Session,
        factors: &Factors,
        second: Second<'_>,
        party: &RelyingParty,
    ) -> Result<()> {
        match second {
            Second::Code(code) => match &factors.totp {
                Some(totp) if self.accounts().use_code(who, totp, code).await? => Ok(()),
                _ => Err(wrong("the code is wrong or was used already: take the present one")),
            },
            Second::Recovery(code) => {
                let key = open_recovery(&self.accounts(), who, code).await?;
                if key.public() == who.key().public() { Ok(()) } else { Err(wrong("the recovery code is wrong")) }
            }
            Second::Passkey(answer) => self.check_passkey(who, factors, answer, party).await,
        }
    }
}

/// What programs are told whose account wants more than a password.
pub(crate) fn needs_token() -> Error {
    wrong(
        "this account has a second factor, so its password alone does not work here: make an app token on the drive's page \
         (Account, Connect) and use it in place of the password",
    )
}

pub(crate) fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::Unauthenticated, message)
}
