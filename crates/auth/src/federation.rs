//! Signing in by a provider (OpenID Connect): who somebody is there, and what opens their account's key here.
//!
//! A provider says who somebody is; it has no key of theirs. So it depends on the operator: with the escrow key at hand, the server opens the account
//! by its escrow slot, and nothing more is asked. Without it, the account has a *drive passphrase* that its owner chose at their first
//! sign-in: the password's slot by another name. What the provider said is then carried in a ticket from its answer to the passphrase.
//!
//! Groups become memberships. Taking one away needs no key; giving one needs the space's key, which is taken from an owner by escrow, or from an
//! owner who is signed in at this node, or waits until one signs in.

use crate::authenticator::Authenticator;
use crate::passkey::{RelyingParty, check_account};
use crate::second::{Second, SignedIn, wrong};
use crate::{Accounts, EscrowKey, NewPerson, Scope, Secret, Session};
use holdfast_base::{AccountId, Error, ErrorKind, Result};
use holdfast_meta::{Account, Identity, NewIdentity, OpenGrant, Role, Slot, SlotKind};
use holdfast_seal::keys::{open_escrow_slot, wrap_space_key};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

/// Time from the provider's answer to the passphrase: 15 minutes, to think of a good one.
const PASSPHRASE_MS: i64 = 15 * 60_000;

/// Memberships made at one sign-in of an owner at most; the next makes more.
const GRANTS_AT_ONCE: usize = 200;

/// Identities of one account at most.
pub const IDENTITIES_PER_ACCOUNT_MAX: usize = 20;

const LABEL: &str = "federated, passphrase";

/// Somebody, as a provider said, and what its groups give.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Federated {
    /// The provider's address.
    pub issuer: String,
    /// Who it is there.
    pub subject: String,
    /// What to show.
    pub label: String,
    /// The name a new account gets; none makes none.
    pub name: Option<String>,
    /// Spaces and roles that the groups give.
    pub spaces: Vec<(String, Role)>,
}

/// How somebody who comes from a provider goes on.
#[derive(Debug)]
pub enum Arrival {
    /// They are in; a new account's recovery code is to be shown once.
    In(Arc<Session>, Option<Secret>),
    /// The passphrase is asked for.
    Passphrase {
        /// To be sent back with it.
        ticket: String,
        /// Whose it is.
        account: String,
        /// Whether it is to be chosen now.
        first: bool,
    },
}

impl Authenticator {
    /// Seals something of a sign-in by a provider for `lasts_ms`.
    pub async fn issue_ticket<T: Serialize>(&self, label: &str, body: T, lasts_ms: i64) -> Result<String> {
        self.tickets().issue(label, body, self.now_ms().saturating_add(lasts_ms)).await
    }

    /// Opens what [`Authenticator::issue_ticket`] sealed, once.
    pub async fn spend_ticket<T: DeserializeOwned>(&self, label: &str, text: &str) -> Result<T> {
        let (ticket, body) = self.tickets().open(label, text, self.now_ms()).await?;
        if self.catalogue().spend_ticket(ticket, self.now_ms()).await? {
            Ok(body)
        } else {
            Err(wrong("this was answered before: begin again"))
        }
    }

    /// Somebody comes from a provider.
    pub async fn arrive(&self, person: Federated, escrow: Option<&EscrowKey>) -> Result<Arrival> {
        if let Some((account, identity)) = self.catalogue().identity(&person.issuer, &person.subject).await? {
            if account.disabled {
                return Err(Error::forbidden("this account is disabled: ask an administrator"));
            }
            let slots = self.catalogue().slots(account.id).await?;
            return match escrow.map(|escrow| open(&account, &slots, escrow)) {
                Some(Some(session)) => {
                    let session = Arc::new(session?);
                    self.welcome(&session, &person, Some(&identity), escrow).await?;
                    Ok(Arrival::In(session, None))
                }
                _ => self.ask_passphrase(person, account.name, false).await,
            };
        }
        let Some(name) = person.name.clone() else {
            return Err(Error::forbidden(
                "no account here is linked with this identity: sign in with your password and link it on your account's page",
            ));
        };
        if self.catalogue().account_by_name(&name).await?.is_some() {
            return Err(Error::conflict(format!(
                "there is an account {name} that is not linked with this identity: if it is yours, sign in with its password \
                 and link it on your account's page"
            )));
        }
        match escrow {
            None => self.ask_passphrase(person, name, true).await,
            Some(escrow) => {
                let (session, code) = self.make(&person, &name, None).await?;
                self.welcome(&session, &person, None, Some(escrow)).await?;
                Ok(Arrival::In(session, Some(code)))
            }
        }
    }

    /// The passphrase of somebody who came from a provider; chosen now, if they are new. A weak one is `InvalidInput`.
    pub async fn arrive_with(
        &self,
        ticket: &str,
        passphrase: &Secret,
        second: Option<Second<'_>>,
        party: &RelyingParty,
        peer: Option<IpAddr>,
    ) -> Result<(SignedIn, Option<Secret>)> {
        let (_, person) = self.tickets().open::<Federated>(LABEL, ticket, self.now_ms()).await?;
        let known = self.catalogue().identity(&person.issuer, &person.subject).await?;
        let Some((account, identity)) = known else {
            let name = person.name.clone().ok_or_else(|| Error::forbidden("no account is made for this identity"))?;
            let (session, code) = self.make(&person, &name, Some(passphrase.clone())).await?;
            self.welcome(&session, &person, None, None).await?;
            return Ok((SignedIn::Whole(session), Some(code)));
        };
        let signed_in = self.sign_in_with(&account.name, passphrase, second, party, peer).await?;
        if let SignedIn::Whole(session) = &signed_in {
            self.welcome(session, &person, Some(&identity), None).await?;
        }
        Ok((signed_in, None))
    }

    /// Makes memberships that wait for a key this account has.
    pub async fn make_grants(&self, who: &Session) -> Result<()> {
        for grant in self.catalogue().open_grants(who.account, GRANTS_AT_ONCE).await? {
            self.accounts().make_grant(who, &grant).await?;
        }
        Ok(())
    }

    async fn ask_passphrase(&self, person: Federated, account: String, first: bool) -> Result<Arrival> {
        let ticket = self.issue_ticket(LABEL, person, PASSPHRASE_MS).await?;
        Ok(Arrival::Passphrase { ticket, account, first })
    }

    async fn make(&self, person: &Federated, name: &str, passphrase: Option<Secret>) -> Result<(Arc<Session>, Secret)> {
        let new = NewPerson { name: name.to_owned(), password: passphrase, ..NewPerson::default() };
        let identity =
            NewIdentity { issuer: person.issuer.clone(), subject: person.subject.clone(), label: person.label.clone() };
        let (created, key) = self.accounts().create_linked(new, Some(identity)).await?;
        let session = Session::new(&created.account, Scope::default(), key);
        Ok((Arc::new(session), created.recovery_code))
    }

    /// Notes the visit and does what the groups say. A membership that cannot be made now waits; nobody is kept out for it.
    async fn welcome(
        &self,
        who: &Session,
        person: &Federated,
        identity: Option<&Identity>,
        escrow: Option<&EscrowKey>,
    ) -> Result<()> {
        if let Some(identity) = identity {
            self.catalogue().touch_identity(identity.id, self.now_ms()).await?;
        }
        let mut wanted = Vec::new();
        let spaces = self.catalogue().all_spaces().await?;
        for (name, role) in &person.spaces {
            match spaces.iter().find(|space| space.name == *name && !space.home) {
                Some(space) if space.owner != who.account => wanted.push((space.id, *role)),
                Some(_) => {}
                None => tracing::warn!(space = name, "groups of a provider are to give a space that does not exist"),
            }
        }
        self.catalogue().wish_grants(who.account, &person.issuer, wanted).await?;
        for grant in self.catalogue().awaited_grants(who.account).await? {
            if let Err(error) = self.make_now(&grant, escrow).await {
                tracing::warn!(?error, space = %grant.space, "a membership that groups give could not be made");
            }
        }
        Ok(())
    }

    /// Makes a membership with the key of an owner that is at hand.
    async fn make_now(&self, grant: &OpenGrant, escrow: Option<&EscrowKey>) -> Result<()> {
        let members = self.catalogue().members(grant.space).await?;
        let owners: Vec<AccountId> =
            members.iter().filter(|member| member.role == Role::Owner).map(|member| member.account).collect();
        let here = self.sessions().into_iter().find(|session| {
            owners.contains(&session.account) && !session.awaits_second && session.require_full().is_ok()
        });
        if let Some(session) = here {
            return self.accounts().make_grant(&session, grant).await;
        }
        let Some(escrow) = escrow else { return Ok(()) };
        for owner in owners {
            let Some(account) = self.catalogue().account(owner).await? else { continue };
            let slots = self.catalogue().slots(owner).await?;
            if let Some(session) = open(&account, &slots, escrow) {
                return self.accounts().make_grant(&session?, grant).await;
            }
        }
        Ok(())
    }
}

impl Accounts {
    /// Who an account is at providers.
    pub async fn identities(&self, account: AccountId) -> Result<Vec<Identity>> {
        self.catalogue.identities(account).await
    }

    /// Links the session's account with an identity that its owner has just shown to be theirs.
    pub async fn link(&self, who: &Session, identity: NewIdentity) -> Result<Identity> {
        who.require_full()?;
        if self.catalogue.identities(who.account).await?.len() >= IDENTITIES_PER_ACCOUNT_MAX {
            let message = format!("an account has {IDENTITIES_PER_ACCOUNT_MAX} linked identities at most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.catalogue.link_identity(who.account, identity, self.clock.now_ms()).await
    }

    /// Takes a link away. Memberships by groups stay until a provider says otherwise, or an owner.
    pub async fn unlink(&self, who: &Session, id: i64) -> Result<()> {
        who.require_full()?;
        self.catalogue.unlink_identity(who.account, id).await
    }

    async fn make_grant(&self, owner: &Session, grant: &OpenGrant) -> Result<()> {
        let spaces = self.catalogue.spaces_of(owner.account).await?;
        let own = spaces.iter().find(|(space, member)| space.id == grant.space && member.role == Role::Owner);
        let Some((space, membership)) = own else { return Ok(()) };
        let wrapped = wrap_space_key(&grant.public_key, space.uid, &owner.space_key(space.uid, membership)?)?;
        self.catalogue.make_grant(grant.space, grant.account, grant.role, wrapped).await.map(|_| ())
    }
}

/// An account by its escrow slot; none if it has none.
fn open(account: &Account, slots: &[Slot], escrow: &EscrowKey) -> Option<Result<Session>> {
    let slot = slots.iter().find(|slot| slot.kind == SlotKind::Escrow)?;
    let opened = open_escrow_slot(escrow.key(), account.uid, &slot.sealed).and_then(|key| {
        check_account(account, &key.public())?;
        Ok(Session::new(account, Scope::default(), key))
    });
    Some(opened.map_err(|error| error.context("the escrow key does not open the account")))
}
