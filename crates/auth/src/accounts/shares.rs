//! Sharing: the space's key is wrapped to an account's public key, or to that of a link.
//!
//! A link has a key pair of its own. Its private key is sealed for the link's secret, which is in the part of its address that browsers do
//! not send; with a password, for secret and password together (Argon2id). Beside it the catalogue keeps a hash of the secret, so that who
//! cannot show it learns nothing, and the secret itself, wrapped to the public key of whoever made the link, who can so show it again. None of
//! that opens anything without the secret or that account.
//!
//! Owners of a space share: a share hands on the space's key, as membership does. What somebody may do through it, and below which
//! folder, is the drive's to see to; the limit is that of members: who copied the key and gets at catalogue and store besides can read the
//! space.

use super::Accounts;
use crate::password::PASSWORD_BYTES_MAX;
use crate::token::Token;
use crate::{Secret, Session, base32};
use holdfast_base::{DrivePath, Error, ErrorKind, NodeId, Result, SpaceId, Uid};
use holdfast_meta::{Access, LinkLock, NewShare, NewVisit, NodeKind, ShareChange, Shared, Visit};
use holdfast_seal::keys::{
    Argon2Params, CredentialKind, SlotContext, open_slot, random_bytes, seal_slot, wrap_space_key,
};
use holdfast_seal::{AccountKey, SpaceKey};
use zeroize::Zeroizing;

/// Longest note on a share, in bytes: a line of text.
pub const SHARE_LABEL_BYTES_MAX: usize = 200;
/// Shortest password of a link, in characters. The link's secret cannot be guessed; the password is for links that were passed on.
pub const LINK_PASSWORD_CHARS_MIN: usize = 6;
/// Most downloads that a link is limited to; more is no limit.
pub const LINK_DOWNLOADS_MAX: u64 = 1_000_000;
/// A visit of a link lasts so long: a day; the page begins another by itself.
pub const VISIT_MS: i64 = 24 * 3_600_000;
/// Bytes of a link's secret.
const SECRET_BYTES: usize = 32;
/// What the hash of a secret is for.
const PROOF: &str = "holdfast 2026-11 proof of a link's secret";

/// A share asked for.
#[derive(Debug, Clone)]
pub struct ShareRequest {
    /// The account; none makes a link.
    pub account: Option<String>,
    /// What it allows.
    pub access: Access,
    /// A note for whoever shares.
    pub label: String,
    /// A link's password.
    pub password: Option<Secret>,
    /// When it ends.
    pub expires_ms: Option<i64>,
    /// A link's downloads at most.
    pub downloads_max: Option<u64>,
}

/// Changes of a share; none leaves a field as it is.
#[derive(Debug, Clone, Default)]
pub struct ShareWish {
    /// What it allows.
    pub access: Option<Access>,
    /// The note.
    pub label: Option<String>,
    /// A link's password (inner none: without).
    pub password: Option<Option<Secret>>,
    /// When it ends (inner none: never).
    pub expires_ms: Option<Option<i64>>,
    /// A link's downloads at most (inner none: no limit); the count begins again.
    pub downloads_max: Option<Option<u64>>,
}

/// A visit just begun.
#[derive(Debug)]
pub struct CreatedVisit {
    /// The link.
    pub shared: Shared,
    /// What goes into the cookie.
    pub secret: Secret,
}

impl Accounts {
    /// Shares a folder with an account, or makes a link to a folder or file. For owners of the space.
    pub async fn share(&self, who: &Session, space: &str, path: &DrivePath, wanted: ShareRequest) -> Result<Shared> {
        let (space, own) = self.owned(who, space).await?;
        let now_ms = self.clock.now_ms();
        check_limits(&wanted.label, wanted.expires_ms, wanted.downloads_max, now_ms)?;
        let (node, kind) = self.node(space.id, path).await?;
        check_access(wanted.access, wanted.account.is_none(), kind)?;
        let key = who.space_key(space.uid, &own)?;
        let uid = Uid(random_bytes()?);
        let mut new = NewShare {
            uid,
            space: space.id,
            node,
            by: who.account,
            with: None,
            label: wanted.label,
            access: wanted.access,
            wrapped_key: Vec::new(),
            link: None,
            expires_ms: wanted.expires_ms,
            downloads_max: wanted.downloads_max,
            now_ms,
        };
        if let Some(name) = wanted.account {
            if wanted.password.is_some() || wanted.downloads_max.is_some() {
                return Err(Error::invalid("only links have a password and a limit of downloads"));
            }
            let account = self.get(&name).await?;
            if account.id == who.account || account.name == crate::SITES_ACCOUNT {
                return Err(Error::invalid(format!("this cannot be shared with {name:?}")));
            }
            new.wrapped_key = wrap_space_key(&account.public_key, space.uid, &key)?;
            let folder = path.name().map_or(space.name.as_str(), |name| name.as_str());
            new.with = Some((account.id, view_name(folder, &who.name)));
        } else {
            let secret = Zeroizing::new(random_bytes()?);
            let (lock, wrapped_key) = self.lock(who, uid, (space.uid, &key), &secret, wanted.password.as_ref()).await?;
            (new.link, new.wrapped_key) = (Some(lock), wrapped_key);
        }
        self.catalogue.put_share(new).await
    }

    /// What the account has shared.
    pub async fn shares_made(&self, who: &Session) -> Result<Vec<Shared>> {
        who.require_full()?;
        self.catalogue.shares_by(who.account).await
    }

    /// What is shared with the account.
    pub async fn shares_had(&self, who: &Session) -> Result<Vec<Shared>> {
        who.require_full()?;
        self.catalogue.shares_with(who.account).await
    }

    /// All shares of a space, or of one place in it. For owners.
    pub async fn shares_of(&self, who: &Session, space: &str, path: Option<&DrivePath>) -> Result<Vec<Shared>> {
        let (space, _) = self.owned(who, space).await?;
        let node = match path {
            Some(path) => Some(self.node(space.id, path).await?.0),
            None => None,
        };
        self.catalogue.shares_of(space.id, node).await
    }

    /// The end of a link's address, for whoever made it.
    pub fn link_secret(&self, who: &Session, shared: &Shared) -> Option<Secret> {
        let lock = shared.share.link.as_ref().filter(|_| shared.share.by == who.account)?;
        who.key().unwrap_space_key(shared.share.uid, &lock.secret).ok().map(|secret| text(secret.expose()))
    }

    /// Changes a share. For owners of its space; a link's password only for whoever made it.
    pub async fn change_share(&self, who: &Session, id: Uid, wanted: ShareWish) -> Result<Shared> {
        let shared = self.managed(who, id).await?;
        let share = &shared.share;
        let (label, most) = (wanted.label.as_deref().unwrap_or_default(), wanted.downloads_max.flatten());
        check_limits(label, wanted.expires_ms.flatten(), most, self.clock.now_ms())?;
        if share.link.is_none() && (wanted.password.is_some() || most.is_some()) {
            return Err(Error::invalid("only links have a password and a limit of downloads"));
        }
        if let Some(access) = wanted.access {
            let kind = shared.place.as_ref().map_or(NodeKind::File, |(_, kind)| *kind);
            check_access(access, share.link.is_some(), kind)?;
        }
        let lock = match &wanted.password {
            None => None,
            Some(password) => {
                let secret = self.link_secret(who, &shared).and_then(|secret| read_secret(secret.expose()));
                let secret = secret.ok_or_else(|| Error::forbidden("only who made a link can change its password"))?;
                let (space, own) = self.owned(who, &shared.space.name).await?;
                let key = who.space_key(space.uid, &own)?;
                Some(self.lock(who, share.uid, (space.uid, &key), &secret, password.as_ref()).await?)
            }
        };
        let change = ShareChange {
            label: wanted.label,
            access: wanted.access,
            expires_ms: wanted.expires_ms,
            downloads_max: wanted.downloads_max,
            lock,
        };
        self.catalogue.change_share(share.id, change).await
    }

    /// Takes a share back, or leaves what was shared with the account.
    pub async fn remove_share(&self, who: &Session, id: Uid) -> Result<()> {
        who.require_full()?;
        let found = self.catalogue.share(id).await?.filter(|shared| shared.share.account == Some(who.account));
        let shared = match found {
            Some(own) => own,
            None => self.managed(who, id).await?,
        };
        self.catalogue.remove_share(shared.share.id).await
    }

    /// A share of a space that the session owns.
    async fn managed(&self, who: &Session, id: Uid) -> Result<Shared> {
        who.require_full()?;
        let shared = self.catalogue.share(id).await?.ok_or_else(no_share)?;
        match self.owned(who, &shared.space.name).await {
            Ok(_) => Ok(shared),
            Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound) => Err(no_share()),
            Err(error) => Err(error),
        }
    }

    async fn node(&self, space: SpaceId, path: &DrivePath) -> Result<(NodeId, NodeKind)> {
        let found = self.catalogue.find(space, path, false).await?;
        let node = found.node(path).ok_or_else(|| Error::not_found(format!("{path} does not exist")))?;
        Ok((node.id, node.kind))
    }

    /// A new key pair for a link, locked; and the space's key wrapped to it.
    async fn lock(
        &self,
        who: &Session,
        link: Uid,
        (space, key): (Uid, &SpaceKey),
        secret: &[u8; SECRET_BYTES],
        password: Option<&Secret>,
    ) -> Result<(LinkLock, Vec<u8>)> {
        let (link_key, public) = AccountKey::generate()?;
        let sealed = match password {
            None => seal_slot(context(link), secret, &link_key, Argon2Params::default())?,
            Some(password) => {
                check_link_password(password)?;
                let turn = self.worker.turn().await?;
                self.worker.seal(&turn, link, &with_password(secret, password), &link_key).await?
            }
        };
        let lock = LinkLock {
            sealed,
            proof: proof(secret),
            secret: wrap_space_key(&who.key().public(), link, &SpaceKey::from_bytes(*secret))?,
            has_password: password.is_some(),
        };
        Ok((lock, wrap_space_key(&public, space, key)?))
    }

    /// Begins a visit for somebody who has opened the link.
    pub(crate) async fn begin_visit(&self, shared: Shared, key: &AccountKey) -> Result<CreatedVisit> {
        let secret = Token::generate_visit()?;
        let now_ms = self.clock.now_ms();
        let new = NewVisit {
            share: shared.share.id,
            lookup: secret.lookup().to_owned(),
            sealed: seal_slot(visit_context(&shared, &secret), secret.secret(), key, Argon2Params::default())?,
            now_ms,
            expires_ms: shared.share.expires_ms.unwrap_or(i64::MAX).min(now_ms.saturating_add(VISIT_MS)),
        };
        self.catalogue.begin_visit(new).await?;
        Ok(CreatedVisit { shared, secret: secret.text() })
    }

    /// Ends the visit that a session is.
    pub async fn end_visit(&self, who: &Session) -> Result<()> {
        match &who.visit {
            Some(visit) => self.catalogue.end_visit(visit.id).await,
            None => Err(Error::conflict("this is no visit of a link")),
        }
    }

    /// The link that a session visits.
    pub async fn visited(&self, who: &Session) -> Result<Shared> {
        let visit = who.visit.as_ref().ok_or_else(no_share)?;
        self.catalogue.share_by_id(visit.share).await?.ok_or_else(no_share)
    }

    /// Counts a download where a link has a limit. A member's is not counted.
    pub async fn count_download(&self, who: &Session, node: NodeId, seq: i64) -> Result<()> {
        match &who.visit {
            Some(visit) if visit.limited => self.catalogue.count_download(visit, node, seq).await,
            _ => Ok(()),
        }
    }
}

/// The session of a visit; the caller has found it by its secret.
pub(crate) fn visit_session(
    account: &holdfast_meta::Account,
    visit: Visit,
    shared: &Shared,
    secret: &Token,
) -> Result<Session> {
    let key = open_slot(visit_context(shared, secret), secret.secret(), &visit.sealed)?;
    Ok(session_of_visit(account, visit, shared, key))
}

/// A session of a visit that is written nowhere, for one request; its link has no limit of downloads.
pub(crate) fn passing_session(account: &holdfast_meta::Account, shared: &Shared, key: AccountKey) -> Session {
    let visit = Visit { id: 0, share: shared.share.id, sealed: Vec::new(), expires_ms: 0, limited: false };
    session_of_visit(account, visit, shared, key)
}

fn session_of_visit(account: &holdfast_meta::Account, visit: Visit, shared: &Shared, key: AccountKey) -> Session {
    let scope = crate::Scope { read_only: shared.share.access == Access::Read, space: None };
    let mut session = Session::new(account, scope, key).signed_in_with(holdfast_meta::SlotKind::Token);
    session.admin = false;
    // Its owner's traffic, but not its owner.
    session.name = format!("link {}", shared.share.uid);
    session.visit = Some(visit);
    session
}

/// Opens a link that has no password.
pub(crate) fn open_without_password(link: Uid, secret: &[u8; SECRET_BYTES], sealed: &[u8]) -> Result<AccountKey> {
    open_slot(context(link), secret, sealed)
}

/// What opens a link that has a password.
pub(crate) fn with_password(secret: &[u8; SECRET_BYTES], password: &Secret) -> Secret {
    Secret::new(format!("{}:{}", base32::encode(secret).as_str(), password.expose()))
}

pub(crate) fn proof(secret: &[u8; SECRET_BYTES]) -> Vec<u8> {
    blake3::derive_key(PROOF, secret).to_vec()
}

/// Reads the end of a link's address.
pub(crate) fn read_secret(text: &str) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
    base32::decode(text.trim()).ok()
}

fn text(secret: &[u8; SECRET_BYTES]) -> Secret {
    Secret::new(base32::encode(secret).as_str())
}

const fn context(link: Uid) -> SlotContext<'static> {
    SlotContext { kind: CredentialKind::Token, account: link, lookup: "" }
}

fn visit_context<'a>(shared: &Shared, secret: &'a Token) -> SlotContext<'a> {
    SlotContext { kind: CredentialKind::Session, account: shared.share.uid, lookup: secret.lookup() }
}

/// What somebody calls a folder that was shared with them. It has a blank in it, which no space's name has.
fn view_name(folder: &str, by: &str) -> String {
    let suffix = format!(" ({by})");
    let folder = &folder[..folder.floor_char_boundary(holdfast_base::limits::NAME_BYTES_MAX - suffix.len())];
    format!("{folder}{suffix}")
}

fn check_limits(label: &str, expires_ms: Option<i64>, downloads_max: Option<u64>, now_ms: i64) -> Result<()> {
    if label.len() > SHARE_LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err(Error::invalid(format!("a note is a line of {SHARE_LABEL_BYTES_MAX} bytes at most")));
    }
    if expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
        return Err(Error::invalid("the end of a share lies in the future"));
    }
    if downloads_max.is_some_and(|most| most == 0 || most > LINK_DOWNLOADS_MAX) {
        return Err(Error::invalid(format!("a limit of downloads is 1 to {LINK_DOWNLOADS_MAX}")));
    }
    Ok(())
}

fn check_access(access: Access, is_link: bool, kind: NodeKind) -> Result<()> {
    match access {
        Access::Upload if !is_link => Err(Error::invalid("only a link can be for uploading alone")),
        Access::Write | Access::Upload if kind != NodeKind::Folder => {
            Err(Error::invalid("a link to a file is for reading: share its folder for more"))
        }
        _ => Ok(()),
    }
}

fn check_link_password(password: &Secret) -> Result<()> {
    let text = password.expose();
    if text.chars().count() < LINK_PASSWORD_CHARS_MIN || text.len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a link's password has at least {LINK_PASSWORD_CHARS_MIN} characters and {PASSWORD_BYTES_MAX} bytes at most"
        )));
    }
    Ok(())
}

fn no_share() -> Error {
    Error::not_found("there is no such share")
}
