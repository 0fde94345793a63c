//! Tickets: what a browser carries from one step of a sign-in to the next, sealed so that it can neither read nor change it.
//!
//! A step may come to another node than the one before, so nothing of it is in a node's memory. The key that seals tickets is one of the
//! drive's own ([`Catalogue::drive_key`]): it opens no account, and whoever has it from a stolen catalogue can make challenges, not
//! answers to them. A ticket that may count once is noted when it is answered; what was never answered costs the drive nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_meta::{Catalogue, Ticket};
use holdfast_seal::keys::random_bytes;
use holdfast_seal::note::{NOTE_BYTES_MAX, NoteKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The name of the key that seals tickets.
const KEY_NAME: &str = "tickets";

/// Longest ticket as text.
pub(crate) const TICKET_BYTES_MAX: usize = NOTE_BYTES_MAX / 3 * 4 + 64;

/// Makes and opens tickets. Clones share the key.
#[derive(Clone)]
pub(crate) struct Tickets {
    catalogue: Arc<dyn Catalogue>,
    key: Arc<OnceCell<zeroize::Zeroizing<[u8; 32]>>>,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    id: [u8; 16],
    expires_ms: i64,
    body: T,
}

impl Tickets {
    pub(crate) fn new(catalogue: Arc<dyn Catalogue>) -> Self {
        Self { catalogue, key: Arc::default() }
    }

    /// Seals `body` for `lasts_ms`; `label` is the use it is for.
    pub(crate) async fn issue<T: Serialize>(&self, label: &str, body: T, until_ms: i64) -> Result<String> {
        seal(&self.key(label).await?, body, until_ms)
    }

    /// Opens a ticket of this use that has not expired.
    pub(crate) async fn open<T: DeserializeOwned>(&self, label: &str, text: &str, now_ms: i64) -> Result<(Ticket, T)> {
        open(&self.key(label).await?, text, now_ms)
    }

    async fn key(&self, label: &str) -> Result<NoteKey> {
        let shared = self.key.get_or_try_init(|| async {
            self.catalogue.drive_key(KEY_NAME, random_bytes()?).await.map(zeroize::Zeroizing::new)
        });
        NoteKey::new(shared.await?, label, &[])
    }
}

/// Seals `body` with a key until `until_ms`.
pub(crate) fn seal<T: Serialize>(key: &NoteKey, body: T, until_ms: i64) -> Result<String> {
    let envelope = Envelope { id: random_bytes()?, expires_ms: until_ms, body };
    let plain = serde_json::to_vec(&envelope)
        .map(zeroize::Zeroizing::new)
        .map_err(|error| Error::internal("a ticket cannot be written").with_source(error))?;
    Ok(URL_SAFE_NO_PAD.encode(key.seal(&plain)?))
}

/// Opens what [`seal`] made.
pub(crate) fn open<T: DeserializeOwned>(key: &NoteKey, text: &str, now_ms: i64) -> Result<(Ticket, T)> {
    let void = || Error::new(ErrorKind::Unauthenticated, "this took too long, or it was begun elsewhere: begin again");
    if text.len() > TICKET_BYTES_MAX {
        return Err(void());
    }
    let note = URL_SAFE_NO_PAD.decode(text).map_err(|_| void())?;
    let plain = key.open(&note).map_err(|_| void())?;
    let envelope: Envelope<T> = serde_json::from_slice(&plain).map_err(|_| void())?;
    if now_ms >= envelope.expires_ms {
        return Err(void());
    }
    Ok((Ticket { id: envelope.id, expires_ms: envelope.expires_ms }, envelope.body))
}
