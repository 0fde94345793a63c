//! What a browser and an authenticator answer: the client data (JSON) and the authenticator data (WebAuthn section 6.1).

use crate::second::wrong;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_base::{Error, Result};
use holdfast_seal::proof::sha256;
use serde::Deserialize;
use std::fmt;
use zeroize::Zeroizing;

/// Longest part of an answer, in bytes: an RSA key and a long credential id fit several times over.
pub(super) const PART_BYTES_MAX: usize = 4 << 10;

/// Longest credential id (WebAuthn section 4).
const CREDENTIAL_BYTES_MAX: usize = 1_023;

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const HAS_CREDENTIAL: u8 = 1 << 6;

/// Hash of the party's name, flags, counter.
const HEAD_BYTES: usize = 32 + 1 + 4;
/// The authenticator's model, which nobody looks at, and the length of the credential's id.
const MODEL_BYTES: usize = 16;

/// What passkeys know the drive as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelyingParty {
    /// Scheme, host and port as browsers write them.
    pub origin: String,
    /// The host's name.
    pub id: String,
}

impl RelyingParty {
    /// Of an origin (`https://drive.example`). WebAuthn wants a name; an address in numbers is none.
    pub fn of_origin(origin: &str) -> Option<Self> {
        let (scheme, authority) = origin.split_once("://")?;
        let authority = authority.to_ascii_lowercase();
        let host = if authority.starts_with('[') { return None } else { authority.split(':').next()? };
        let fits = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        if !matches!(scheme, "http" | "https") || host.is_empty() || host.len() > 253 || !fits {
            return None;
        }
        let port = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.strip_suffix(port).unwrap_or(&authority);
        Some(Self { origin: format!("{scheme}://{authority}"), id: host.to_owned() })
    }
}

/// A secret that an authenticator yields, with 32 bytes.
pub type PasskeySecret = Zeroizing<[u8; 32]>;

/// An authenticator's answer that makes a passkey.
pub struct Registration {
    /// The question.
    pub ticket: String,
    /// What the person calls it.
    pub label: String,
    /// As the browser wrote it.
    pub client_data: Vec<u8>,
    /// As the authenticator wrote it.
    pub authenticator_data: Vec<u8>,
    /// What it yields.
    pub secret: Option<PasskeySecret>,
}

/// An authenticator's answer that proves a passkey.
pub struct Assertion {
    /// The question.
    pub ticket: String,
    /// Which passkey.
    pub credential: Vec<u8>,
    /// As the browser wrote it.
    pub client_data: Vec<u8>,
    /// As the authenticator wrote it.
    pub authenticator_data: Vec<u8>,
    /// Over the two.
    pub signature: Vec<u8>,
    /// Whose it says it is.
    pub user: Option<Vec<u8>>,
    /// What it yields.
    pub secret: Option<PasskeySecret>,
}

impl fmt::Debug for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assertion").field("credential", &self.credential).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("label", &self.label).finish_non_exhaustive()
    }
}

/// What an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Create,
    Get,
}

/// An answer that belongs to its question. Its signature is not yet checked.
#[derive(Debug)]
pub(super) struct Checked {
    /// Whether the authenticator made sure that it is its owner.
    pub(super) verified: bool,
    pub(super) counter: u32,
    /// A new passkey's id and public key.
    pub(super) credential: Option<(Vec<u8>, Vec<u8>)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

/// Checks everything but the signature: that this answers that question, was given on the drive's own pages, and for the drive.
pub(super) fn check(
    ticket: &str,
    purpose: Purpose,
    party: &RelyingParty,
    client_data: &[u8],
    authenticator_data: &[u8],
) -> Result<Checked> {
    if client_data.len() > PART_BYTES_MAX || authenticator_data.len() > PART_BYTES_MAX {
        return Err(Error::invalid("the passkey's answer is too long"));
    }
    let client: ClientData = serde_json::from_slice(client_data)
        .map_err(|_| Error::invalid("the browser's part of the answer is malformed"))?;
    let kind = if purpose == Purpose::Create { "webauthn.create" } else { "webauthn.get" };
    if client.r#type != kind {
        return Err(wrong("the passkey answered another kind of question"));
    }
    if client.challenge != URL_SAFE_NO_PAD.encode(sha256(ticket.as_bytes())) {
        return Err(wrong("the passkey answered another question: begin again"));
    }
    if client.origin != party.origin || client.cross_origin {
        return Err(wrong("the passkey was used on a page of another site"));
    }
    data(party, authenticator_data)
}

fn data(party: &RelyingParty, data: &[u8]) -> Result<Checked> {
    let malformed = || Error::invalid("the authenticator's part of the answer is malformed");
    let (head, rest) = data.split_at_checked(HEAD_BYTES).ok_or_else(malformed)?;
    let (name, head) = head.split_at(32);
    let (&flags, counter) = head.split_first().ok_or_else(malformed)?;
    if name != sha256(party.id.as_bytes()) {
        return Err(wrong("the passkey is for another site"));
    }
    if flags & PRESENT == 0 {
        return Err(wrong("the authenticator says that nobody was there"));
    }
    let counter = u32::from_be_bytes(counter.try_into().map_err(|_| malformed())?);
    let credential = if flags & HAS_CREDENTIAL == 0 {
        None
    } else {
        let (_, rest) = rest.split_at_checked(MODEL_BYTES).ok_or_else(malformed)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (id, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        if id.is_empty() || id.len() > CREDENTIAL_BYTES_MAX {
            return Err(malformed());
        }
        let key = super::cose::first(rest)?;
        Some((id.to_vec(), key.to_vec()))
    };
    Ok(Checked { verified: flags & VERIFIED != 0, counter, credential })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_the_host_and_the_origin_is_as_browsers_write_it() {
        let of = |origin: &str| RelyingParty::of_origin(origin).map(|party| (party.origin, party.id));
        let pair = |one: &str, two: &str| Some((one.to_owned(), two.to_owned()));
        assert_eq!(of("https://Drive.example:443"), pair("https://drive.example", "drive.example"));
        assert_eq!(of("http://localhost:8642"), pair("http://localhost:8642", "localhost"));
        for bad in ["drive.example", "ftp://x", "https://", "http://[::1]:80", "https://a b", "https://a/b"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_has_to_fit_its_question_in_every_respect() {
        let party = RelyingParty::of_origin("https://drive.example").expect("a party");
        let client = |kind: &str, ticket: &str, origin: &str, cross: bool| {
            let challenge = URL_SAFE_NO_PAD.encode(sha256(ticket.as_bytes()));
            format!(
                r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","crossOrigin":{cross},"new":1}}"#
            )
        };
        let data = |id: &str, flags: u8| [&sha256(id.as_bytes())[..], &[flags, 0, 0, 0, 9]].concat();
        let good = data("drive.example", PRESENT | VERIFIED);
        let check = |client: &str, data: &[u8]| check("t", Purpose::Get, &party, client.as_bytes(), data);
        let origin = "https://drive.example";
        let right = check(&client("webauthn.get", "t", origin, false), &good).expect("fits");
        assert!(right.verified && right.counter == 9 && right.credential.is_none());
        for client in [
            client("webauthn.create", "t", origin, false),
            client("webauthn.get", "u", origin, false),
            client("webauthn.get", "t", "https://evil.example", false),
            client("webauthn.get", "t", "http://drive.example", false),
            client("webauthn.get", "t", origin, true),
            "{".to_owned(),
        ] {
            assert!(check(&client, &good).is_err(), "{client}");
        }
        let right = client("webauthn.get", "t", origin, false);
        for data in [data("evil.example", PRESENT), data("drive.example", VERIFIED), good[..36].to_vec(), Vec::new()] {
            assert!(check(&right, &data).is_err(), "{data:?}");
        }
        for length in 37..80 {
            let mut cut = data("drive.example", PRESENT | HAS_CREDENTIAL);
            cut.resize(length, 0);
            assert!(check(&right, &cut).is_err(), "{length}");
        }
    }
}
