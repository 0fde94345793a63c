//! The ID token: its signature and what it says (OpenID Connect Core section 3.1.3.7).

use crate::keys::KeySet;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_base::{Error, Result};
use holdfast_seal::proof::{EcdsaForm, verify};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longest ID token.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// How far the provider's clock may be from ours.
const SKEW_S: i64 = 60;

/// The oldest token that is taken, whatever it says of its end.
const AGE_S: i64 = 600;

pub(crate) type Claims = Map<String, Value>;

/// What a token has to say.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) now_s: i64,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
}

/// Why a token was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// None of the keys is the one it was signed with: they may have changed.
    UnknownKey,
    /// Something else.
    Wrong(Error),
}

fn wrong(why: &str) -> Refused {
    Refused::Wrong(Error::forbidden(format!("the provider's answer was refused: {why}")))
}

/// Checks a token and answers its claims.
pub(crate) fn check(token: &str, keys: &KeySet, expected: &Expected<'_>) -> Result<Claims, Refused> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(wrong("its token is too long"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or_else(|| wrong("its token is malformed"))?;
    let (head, body) = message.split_once('.').ok_or_else(|| wrong("its token is malformed"))?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("its token is malformed"));
    let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| wrong("its token is malformed"))?;
    if !matches!(head.alg.as_str(), "RS256" | "ES256" | "EdDSA") {
        return Err(wrong("its token is signed in a way that is not accepted"));
    }
    let fitting = keys.fitting(&head.alg, head.kid.as_deref());
    if fitting.is_empty() {
        return Err(Refused::UnknownKey);
    }
    let signature = decode(signature)?;
    if !fitting.iter().any(|key| verify(key, EcdsaForm::Fixed, message.as_bytes(), &signature).is_ok()) {
        return Err(wrong("its token's signature is wrong"));
    }
    let claims: Claims = serde_json::from_slice(&decode(body)?).map_err(|_| wrong("its token is malformed"))?;
    check_claims(&claims, expected)?;
    Ok(claims)
}

fn check_claims(claims: &Claims, expected: &Expected<'_>) -> Result<(), Refused> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let number = |name: &str| claims.get(name).and_then(Value::as_i64);
    if text("iss") != Some(expected.issuer) {
        return Err(wrong("its token is of another issuer"));
    }
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let party = text("azp");
    if !audience.contains(&expected.client)
        || (audience.len() > 1 && party.is_none())
        || party.is_some_and(|party| party != expected.client)
    {
        return Err(wrong("its token is for somebody else"));
    }
    if number("exp").is_none_or(|end| end.saturating_add(SKEW_S) <= expected.now_s) {
        return Err(wrong("its token has expired"));
    }
    let made = number("iat").unwrap_or(0);
    if made > expected.now_s.saturating_add(SKEW_S) || made < expected.now_s.saturating_sub(AGE_S) {
        return Err(wrong("its token is of another time; are the clocks right?"));
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(wrong("its token answers another request"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expected() -> Expected<'static> {
        Expected { issuer: "https://id.example", client: "drive", nonce: "n", now_s: 1_000_000 }
    }

    fn claims(changes: Value) -> Claims {
        let mut claims = json!({"iss": "https://id.example", "sub": "s", "aud": "drive", "exp": 1_000_100, "iat": 999_990,
            "nonce": "n"});
        let all = claims.as_object_mut().expect("an object");
        let Value::Object(changes) = changes else { panic!("no object") };
        all.extend(changes);
        all.retain(|_, value| !value.is_null());
        all.clone()
    }

    #[test]
    fn claims_are_checked_one_by_one() {
        for good in [
            json!({}),
            json!({"aud": ["drive"]}),
            json!({"aud": ["drive", "x"], "azp": "drive"}),
            json!({"exp": 999_950}),
        ] {
            check_claims(&claims(good.clone()), &expected()).unwrap_or_else(|_| panic!("{good}"));
        }
        for bad in [
            json!({"iss": "https://id.example/"}),
            json!({"aud": "other"}),
            json!({"aud": []}),
            json!({"aud": ["drive", "x"]}),
            json!({"azp": "other"}),
            json!({"exp": 999_940}),
            json!({"exp": null}),
            json!({"exp": "soon"}),
            json!({"iat": 1_000_061}),
            json!({"iat": 999_399}),
            json!({"iat": null}),
            json!({"nonce": "m"}),
            json!({"nonce": null}),
        ] {
            assert!(check_claims(&claims(bad.clone()), &expected()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_without_a_signature_or_with_a_shared_secret_is_refused() {
        let keys: KeySet = serde_json::from_value(json!({"keys": []})).expect("reads");
        let body = URL_SAFE_NO_PAD.encode(Value::Object(claims(json!({}))).to_string());
        for algorithm in ["none", "HS256", "RS512", ""] {
            let head = URL_SAFE_NO_PAD.encode(json!({"alg": algorithm}).to_string());
            let refused = check(&format!("{head}.{body}."), &keys, &expected());
            assert!(matches!(refused, Err(Refused::Wrong(_))), "{algorithm}");
        }
        let head = URL_SAFE_NO_PAD.encode(json!({"alg": "RS256", "kid": "x"}).to_string());
        assert!(matches!(check(&format!("{head}.{body}.AAAA"), &keys, &expected()), Err(Refused::UnknownKey)));
        for malformed in ["", "a", "a.b", "a.b.c", "...."] {
            assert!(matches!(check(malformed, &keys, &expected()), Err(Refused::Wrong(_))), "{malformed}");
        }
    }
}
