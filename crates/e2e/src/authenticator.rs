//! An authenticator with one passkey: what a security key and a browser answer to the drive's questions (WebAuthn), without either.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::Outcome;
use crate::browser::HOST;

/// What the authenticator says of itself: somebody was there, and it was its owner.
const PRESENT_AND_VERIFIED: u8 = 1 | 1 << 2;
/// A new passkey follows.
const HAS_CREDENTIAL: u8 = 1 << 6;
/// The secret that it yields to the drive alone.
const SECRET: [u8; 32] = [7; 32];

/// A passkey and its counter.
#[derive(Debug)]
pub struct Passkey {
    key: Ed25519KeyPair,
    credential: [u8; 16],
    counter: u32,
}

impl Passkey {
    /// A new key pair.
    pub fn new() -> Outcome<Self> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| "no key pair")?;
        let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| "no key pair")?;
        let mut credential = [0; 16];
        aws_lc_rs::rand::fill(&mut credential).map_err(|_| "no randomness")?;
        Ok(Self { key, credential, counter: 0 })
    }

    /// The answer that adds it: one that signs in alone.
    pub fn registration(&self, question: &Value) -> Outcome<Value> {
        // COSE: an octet key pair (1) of EdDSA (-8) on Ed25519 (6), and its public half.
        let key = [&[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..], self.key.public_key().as_ref()].concat();
        let length = u16::try_from(self.credential.len())?.to_be_bytes();
        let credential = [&[0; 16][..], &length, &self.credential, &key].concat();
        let data = [self.head(PRESENT_AND_VERIFIED | HAS_CREDENTIAL), credential].concat();
        Ok(json!({
            "ticket": question["ticket"], "label": "a key",
            "client_data": encode(&client_data("webauthn.create", question)),
            "authenticator_data": encode(&data), "secret": encode(&SECRET),
        }))
    }

    /// The answer that signs in.
    pub fn assertion(&mut self, question: &Value) -> Value {
        self.counter += 1;
        let (client, data) = (client_data("webauthn.get", question), self.head(PRESENT_AND_VERIFIED));
        let signed = [&data[..], &sha256(&client)].concat();
        json!({
            "ticket": question["ticket"], "credential": encode(&self.credential), "client_data": encode(&client),
            "authenticator_data": encode(&data), "signature": encode(self.key.sign(&signed).as_ref()),
            "secret": encode(&SECRET),
        })
    }

    fn head(&self, flags: u8) -> Vec<u8> {
        [&sha256(HOST.as_bytes())[..], &[flags], &self.counter.to_be_bytes()].concat()
    }
}

fn client_data(kind: &str, question: &Value) -> Vec<u8> {
    let data = json!({"type": kind, "challenge": question["challenge"], "origin": format!("http://{HOST}")});
    data.to_string().into_bytes()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().to_vec()
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
