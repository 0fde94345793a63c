//! Proofs that others make and we only check: signatures of authenticators and providers, one-time codes.

use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY};
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use aws_lc_rs::{constant_time, digest};
use holdfast_base::{Error, ErrorKind, Result};

/// Seconds of a step of one-time codes (RFC 6238).
pub const STEP_S: i64 = 30;

/// Digits of a one-time code.
pub const CODE_DIGITS: usize = 6;

/// A public key of somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// ECDSA on P-256 with SHA-256: the point, both coordinates (`ES256`).
    P256([u8; 64]),
    /// Ed25519 (`EdDSA`).
    Ed25519([u8; 32]),
    /// RSA with PKCS #1 v1.5 and SHA-256, 2,048 to 8,192 bits (`RS256`).
    Rsa {
        /// Modulus, big-endian.
        modulus: Vec<u8>,
        /// Exponent, big-endian.
        exponent: Vec<u8>,
    },
}

/// How an ECDSA signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcdsaForm {
    /// As ASN.1, as authenticators write it.
    Asn1,
    /// As two numbers, as tokens have it (RFC 7518).
    Fixed,
}

/// Checks a signature; one that is wrong is `Unauthenticated`.
pub fn verify(key: &PublicKey, form: EcdsaForm, message: &[u8], signature: &[u8]) -> Result<()> {
    let checked = match key {
        PublicKey::P256(point) => {
            let algorithm: &'static dyn signature::VerificationAlgorithm =
                if form == EcdsaForm::Asn1 { &ECDSA_P256_SHA256_ASN1 } else { &ECDSA_P256_SHA256_FIXED };
            let point = [&[4], &point[..]].concat();
            signature::UnparsedPublicKey::new(algorithm, point).verify(message, signature)
        }
        PublicKey::Ed25519(key) => signature::UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        PublicKey::Rsa { modulus, exponent } => {
            RsaPublicKeyComponents { n: modulus, e: exponent }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
        }
    };
    checked.map_err(|_| Error::new(ErrorKind::Unauthenticated, "the signature is wrong"))
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

/// The one-time code of a step (RFC 6238 with HMAC-SHA-1, RFC 4226).
pub fn one_time_code(secret: &[u8], step: i64) -> String {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret), &step.to_be_bytes());
    let tag = tag.as_ref();
    let at = usize::from(tag.last().copied().unwrap_or(0) & 0xf);
    let word = tag.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes);
    format!("{:06}", (word & 0x7fff_ffff) % 1_000_000)
}

/// The step whose code this is, among the one of `now_ms`, the one before and the one after.
pub fn step_of_code(secret: &[u8], code: &str, now_ms: i64) -> Option<i64> {
    let now = now_ms.div_euclid(1_000 * STEP_S);
    // All three are compared, whichever it is.
    let fits = |step: &i64| {
        constant_time::verify_slices_are_equal(one_time_code(secret, *step).as_bytes(), code.as_bytes()).is_ok()
    };
    let found: Vec<i64> = (now - 1..=now + 1).filter(fits).collect();
    found.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};

    #[test]
    fn codes_are_those_of_rfc_6238() {
        // The RFC's vectors have eight digits; ours are the last six of them.
        for (time_s, code) in [(59, "287082"), (1_111_111_109, "081804"), (2_000_000_000, "279037")] {
            assert_eq!(one_time_code(b"12345678901234567890", time_s / STEP_S), code);
        }
    }

    #[test]
    fn a_code_counts_one_step_early_and_late() {
        let step = |now_ms| step_of_code(b"12345678901234567890", "287082", now_ms);
        assert_eq!([step(59_000), step(29_999), step(30_000), step(89_999)], [Some(1); 4]);
        assert_eq!([step(90_000), step(-30_001)], [None; 2]);
    }

    #[test]
    fn signatures_are_checked_in_their_form() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("generates");
        let signed = key.sign(&random, b"message").expect("signs");
        let public = PublicKey::P256(key.public_key().as_ref()[1..].try_into().expect("a point"));
        verify(&public, EcdsaForm::Asn1, b"message", signed.as_ref()).expect("is right");
        assert!(verify(&public, EcdsaForm::Fixed, b"message", signed.as_ref()).is_err());
        assert!(verify(&public, EcdsaForm::Asn1, b"massage", signed.as_ref()).is_err());
        let key = Ed25519KeyPair::generate().expect("generates");
        let public = PublicKey::Ed25519(key.public_key().as_ref().try_into().expect("a key"));
        verify(&public, EcdsaForm::Asn1, b"message", key.sign(b"message").as_ref()).expect("is right");
        assert!(verify(&public, EcdsaForm::Asn1, b"massage", key.sign(b"message").as_ref()).is_err());
    }
}
