//! Sealing on this side: with what the server has of the account's keys, and the token's secret that opens it.

use crate::wire::Keys;
use holdfast_auth::{Secret, Token};
use holdfast_base::{Error, Result};
use holdfast_drive::NewContent;
use holdfast_drive::engine::small;
use holdfast_seal::keys::{CredentialKind, SlotContext, open_slot};
use holdfast_seal::{BlockKeys, Codec};

/// The keys of a space.
pub(super) struct Sealing {
    keys: BlockKeys,
    codec: Codec,
}

impl Sealing {
    /// Opens the slot with the token's secret, and the space's key with what is in it.
    pub(super) fn open(keys: &Keys, token: &Secret) -> Result<Self> {
        let token = Token::parse(token.expose()).ok_or_else(|| Error::invalid("this is no app token"))?;
        let context = SlotContext { kind: CredentialKind::Token, account: keys.account, lookup: token.lookup() };
        let account = open_slot(context, token.secret(), &keys.slot)
            .map_err(|error| error.context("the key that the server has for this app token"))?;
        let key = account.unwrap_space_key(keys.space_uid, &keys.wrapped)?;
        let codec = small::codec_of(keys.compression);
        Ok(Self { keys: BlockKeys::derive(keys.space_uid, &key), codec })
    }

    pub(super) fn seal(&self, plain: &[u8]) -> Result<Option<NewContent>> {
        small::seal(&self.keys, self.codec, plain)
    }

    pub(super) fn open_small(&self, content: &NewContent) -> Result<Vec<u8>> {
        small::open(&self.keys, content)
    }
}
