//! Digest sign-in (RFC 7616): the server's challenge, and the answers to it. Quality of protection is `auth`, or none (RFC 2069).

use crate::sum::{Sum, SumKind};
use aws_lc_rs::rand;
use holdfast_base::{Error, Result};
use holdfast_blob::object::hex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a server wants to be answered.
#[derive(Debug)]
pub(super) struct Challenge {
    realm: String,
    pub(super) nonce: String,
    opaque: Option<String>,
    /// As the server writes it, and what it means.
    algorithm: (Option<String>, SumKind),
    auth: bool,
    count: AtomicU32,
}

impl Challenge {
    /// Reads the value of `WWW-Authenticate`; none if it is of another kind, or wants what is not known here.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let mut fields = parse_fields(rest)?;
        let algorithm = fields.remove("algorithm");
        let kind = match algorithm.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("md5") => SumKind::Md5,
            Some("sha-256") => SumKind::Sha256,
            _ => return None,
        };
        let auth = match fields.remove("qop") {
            None => false,
            Some(offered) if offered.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")) => true,
            Some(_) => return None,
        };
        Some(Self {
            realm: fields.remove("realm")?,
            nonce: fields.remove("nonce")?,
            opaque: fields.remove("opaque"),
            algorithm: (algorithm, kind),
            auth,
            count: AtomicU32::new(0),
        })
    }

    /// The value of `Authorization` for a request.
    pub(super) fn answer(&self, (user, password): (&str, &str), method: &str, uri: &str) -> Result<String> {
        let mut random = [0; 16];
        rand::fill(&mut random).map_err(|_| Error::internal("there are no random numbers"))?;
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(self.answer_with((user, password), (method, uri), count, &hex(&random)))
    }

    fn answer_with(
        &self,
        (user, password): (&str, &str),
        (method, uri): (&str, &str),
        count: u32,
        own: &str,
    ) -> String {
        let sum = |text: String| Sum::of(self.algorithm.1, text.as_bytes()).to_string();
        let Self { realm, nonce, .. } = self;
        let (who, what) = (sum(format!("{user}:{realm}:{password}")), sum(format!("{method}:{uri}")));
        let response = if self.auth {
            sum(format!("{who}:{nonce}:{count:08x}:{own}:auth:{what}"))
        } else {
            sum(format!("{who}:{nonce}:{what}"))
        };
        let (user, realm, nonce) = (quoted(user), quoted(realm), quoted(nonce));
        let mut text =
            format!("Digest username={user}, realm={realm}, nonce={nonce}, uri=\"{uri}\", response=\"{response}\"");
        // Writing to a string does not fail.
        if self.auth {
            let _ = write!(text, ", qop=auth, nc={count:08x}, cnonce=\"{own}\"");
        }
        if let Some(algorithm) = &self.algorithm.0 {
            let _ = write!(text, ", algorithm={algorithm}");
        }
        if let Some(opaque) = &self.opaque {
            let _ = write!(text, ", opaque={}", quoted(opaque));
        }
        text
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `name=value` pairs between commas, values with quotes or without.
fn parse_fields(text: &str) -> Option<BTreeMap<String, String>> {
    let (mut fields, mut rest) = (BTreeMap::new(), text.trim());
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = if let Some(inside) = after.trim_start().strip_prefix('"') {
            unquote(inside)?
        } else {
            let (value, after) = after.split_at(after.find(',').unwrap_or(after.len()));
            (value.trim().to_owned(), after)
        };
        fields.insert(name.trim().to_ascii_lowercase(), value);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    Some(fields)
}

/// What is before the closing quote, and what is behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in text.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((value, &text[at + 1..])),
            _ => {
                value.push(character);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONCE: &str = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
    const OWN: &str = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";

    /// The example of RFC 7616 section 3.9.1.
    #[test]
    fn the_example_of_the_standard_has_its_answers() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let value = format!(
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, nonce=\"{NONCE}\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            );
            let challenge = Challenge::parse(&value).expect("is understood");
            let answer = challenge.answer_with(("Mufasa", "Circle of Life"), ("GET", "/dir/index.html"), 1, OWN);
            assert!(answer.contains(&format!("response=\"{response}\"")) && answer.contains("nc=00000001"), "{answer}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_answered() {
        for value in [
            "Basic realm=\"x\"",
            "Digest",
            "Digest realm=\"x\"",
            "Digest realm=\"x\", nonce=\"y\", algorithm=MD5-sess",
            "Digest realm=\"x\", nonce=\"y\", qop=\"auth-int\"",
            "Digest realm=\"x",
        ] {
            assert!(Challenge::parse(value).is_none(), "{value}");
        }
        assert_eq!(Challenge::parse("Digest realm=\"a\\\"b\", nonce=n").expect("is understood").realm, "a\"b");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = Challenge::parse(&format!("Digest {text}"));
        }
    }
}
