//! A provider's public keys (RFC 7517, RFC 7518, RFC 8037).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_seal::proof::PublicKey;
use serde::Deserialize;

/// Keys of a provider at most; more are not looked at.
const KEYS_MAX: usize = 64;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct KeySet {
    keys: Vec<Jwk>,
}

/// A key; those of kinds we do not know are passed over.
#[derive(Debug, Clone, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// The keys that a token of this algorithm and key id may be signed with.
    pub(crate) fn fitting(&self, algorithm: &str, id: Option<&str>) -> Vec<PublicKey> {
        let fits = |key: &&Jwk| {
            key.r#use.as_deref().is_none_or(|purpose| purpose == "sig")
                && key.alg.as_deref().is_none_or(|known| known == algorithm)
                && (id.is_none() || key.kid.as_deref() == id)
        };
        self.keys.iter().take(KEYS_MAX).filter(fits).filter_map(|key| key.public(algorithm)).collect()
    }
}

impl Jwk {
    fn public(&self, algorithm: &str) -> Option<PublicKey> {
        match (algorithm, self.kty.as_str(), self.crv.as_deref()) {
            ("RS256", "RSA", _) => {
                Some(PublicKey::Rsa { modulus: number(self.n.as_ref())?, exponent: number(self.e.as_ref())? })
            }
            ("ES256", "EC", Some("P-256")) => {
                let (x, y) = (number(self.x.as_ref())?, number(self.y.as_ref())?);
                if x.len() != 32 {
                    return None;
                }
                [x, y].concat().try_into().ok().map(PublicKey::P256)
            }
            ("EdDSA", "OKP", Some("Ed25519")) => number(self.x.as_ref())?.try_into().ok().map(PublicKey::Ed25519),
            _ => None,
        }
    }
}

fn number(text: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_fit_in_every_respect_are_tried() {
        let text = r#"{"keys":[
            {"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}, {"kty":"RSA","kid":"b","use":"enc","n":"AQAB","e":"AQAB"},
            {"kty":"oct","kid":"a","k":"AQAB"}, {"kty":"RSA","kid":"c","alg":"RS512","n":"AQAB","e":"AQAB"},
            {"kty":"OKP","crv":"Ed25519","kid":"d","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
            {"kty":"EC","crv":"P-384","kid":"e","x":"AQAB","y":"AQAB"}]}"#;
        let keys: KeySet = serde_json::from_str(text).expect("reads");
        let count = |algorithm, id| keys.fitting(algorithm, id).len();
        assert_eq!([count("RS256", Some("a")), count("RS256", Some("b")), count("RS256", Some("c"))], [1, 0, 0]);
        assert_eq!([count("RS256", None), count("EdDSA", Some("d")), count("ES256", Some("e"))], [1, 1, 0]);
        assert_eq!([count("none", None), count("HS256", Some("a")), count("RS512", Some("c"))], [0, 0, 0]);
    }
}
