//! Passkeys and codes: what may count once, and what must go on to count.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_testkit::rng::Prng;
use serde_json::{Value, json};

use super::{Desk, Errand, Known, OTHER, OTHER_PASSWORD, by};
use crate::Outcome;
use crate::authenticator::Passkey;
use crate::rig::PASSWORD;

/// Passkeys there are at a time.
const MAX: usize = 5;

/// Passkeys by their label.
#[derive(Debug, Default)]
pub struct Passkeys {
    known: Known<()>,
    keys: BTreeMap<String, Passkey>,
    /// An answer that signed somebody in.
    used: Option<Value>,
}

impl Passkeys {
    fn add(&mut self, at: &mut Desk) -> Outcome<bool> {
        let label = self.known.new_name("key");
        let password = json!({"password": PASSWORD});
        let Some(question) = at.ask("POST", "/me/passkeys/question", &password, &[200])? else { return Ok(false) };
        let key = Passkey::new()?;
        let mut registration = key.registration(&serde_json::from_slice(&question.body)?)?;
        registration["label"] = label.clone().into();
        self.keys.insert(label.clone(), key);
        let answered = at.ask("POST", "/me/passkeys", &registration, &[201])?.is_some();
        Ok(self.known.changed(label, Some(()), answered))
    }

    /// Signs in with one.
    fn sign_in(&mut self, at: &mut Desk, label: &str) -> Outcome<bool> {
        let key = self.keys.get_mut(label).ok_or("a passkey nobody has")?;
        let mut at = Desk { ann: at.ann.with_cookie(None), ..at.clone() };
        let question = at.ask("POST", "/session/passkey/question", &Value::Null, &[200])?;
        let Some(question) = question else { return Ok(false) };
        let answer = json!({"answer": key.assertion(&serde_json::from_slice(&question.body)?)});
        let answered = at.ask("POST", "/session/passkey", &answer, &[200])?.is_some();
        if answered {
            self.used = Some(answer);
            // A session of each sign-in would be one too many after some hundred.
            return Ok(at.ask("DELETE", "/session", &Value::Null, &[204])?.is_some());
        }
        Ok(false)
    }
}

impl Errand for Passkeys {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let few = self.known.things.len() < MAX;
        let Some((label, ())) = self.known.any(rng).filter(|_| !few || rng.chance(0.6)) else { return self.add(at) };
        if rng.chance(0.6) {
            return self.sign_in(at, &label);
        }
        let Some(answer) = at.ask("GET", "/me/factors", &Value::Null, &[200])? else { return Ok(false) };
        let all: Value = serde_json::from_slice(&answer.body)?;
        let id = by(&all["passkeys"], "label")?.get(&label).map(|key| key["id"].clone());
        let path = format!("/me/passkeys/{}/remove", id.ok_or("an acknowledged passkey is gone")?);
        let answered = at.ask("POST", &path, &json!({"password": PASSWORD}), &[204])?.is_some();
        Ok(self.known.changed(label, None, answered))
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        let all = at.ann.json("GET", "/me/factors", &Value::Null, 200)?;
        let found = by(&all["passkeys"], "label")?.into_keys().map(|label| (label, ())).collect();
        self.known.compare(&found)?;
        self.keys.retain(|label, _| found.contains_key(label));
        if let Some(used) = self.used.take() {
            let status = at.ann.with_cookie(None).call("POST", "/session/passkey", &used)?.status;
            assert_eq!(status, 401, "an answer that was used");
        }
        if let Some(label) = found.keys().next() {
            assert!(self.sign_in(at, label)?, "an acknowledged passkey signs in");
        }
        Ok(())
    }
}

/// Codes of ben, who has switched them on.
#[derive(Debug)]
pub struct Codes {
    secret: Vec<u8>,
    /// The step of the last code that was sent.
    sent: i64,
    /// Whether it was acknowledged.
    acknowledged: bool,
}

impl Codes {
    /// Switches them on.
    pub fn new(desk: &mut Desk) -> Outcome<Self> {
        let new = desk.ben.json("POST", "/me/codes", &json!({"password": OTHER_PASSWORD}), 200)?;
        let secret = from_base32(new["secret"].as_str().ok_or("no secret")?)?;
        let sent = step() - 1;
        let first = json!({"ticket": new["ticket"], "code": one_time_code(&secret, sent)});
        desk.ben.call("PUT", "/me/codes", &first)?.expect_status(204)?;
        Ok(Self { secret, sent, acknowledged: true })
    }

    fn sign_in(&self, at: &mut Desk) -> Outcome<Option<u16>> {
        let body = json!({"name": OTHER, "password": OTHER_PASSWORD, "code": one_time_code(&self.secret, self.sent)});
        let mut at = Desk { ann: at.ben.with_cookie(None), ..at.clone() };
        let answer = at.ask("POST", "/session", &body, &[200, 401, 429])?;
        Ok(answer.map(|answer| answer.status))
    }
}

impl Errand for Codes {
    fn step(&mut self, at: &mut Desk, _rng: &mut Prng) -> Outcome<bool> {
        if self.sent > step() {
            // No other code counts before the next half minute.
            std::thread::sleep(std::time::Duration::from_millis(50));
            return Ok(at.ben.get("/me").is_ok_and(|answer| answer.status == 200));
        }
        self.sent = (self.sent + 1).max(step() - 1);
        self.acknowledged = false;
        match self.sign_in(at)? {
            None => Ok(false),
            Some(200) => {
                self.acknowledged = true;
                Ok(true)
            }
            // Whoever guessed too often waits; nobody did but those who sent a used one.
            Some(status) => {
                if status == 429 {
                    Ok(true)
                } else {
                    Err("a fresh code is refused".into())
                }
            }
        }
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        if std::mem::take(&mut self.acknowledged) {
            assert!(matches!(self.sign_in(at)?, Some(401 | 429)), "a code that was used");
        }
        // The switch is there: the password alone opens nothing.
        let body = json!({"name": OTHER, "password": OTHER_PASSWORD});
        let status = at.ben.with_cookie(None).call("POST", "/session", &body)?.status;
        assert!(matches!(status, 401 | 429), "{status}");
        Ok(())
    }
}

fn step() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs() / 30).unwrap_or(i64::MAX)
}

/// RFC 4648, as an app reads the secret.
fn from_base32(text: &str) -> Outcome<Vec<u8>> {
    let value = |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter);
    let values: Vec<usize> = text.bytes().map(value).collect::<Option<_>>().ok_or("this is not Base32")?;
    let bits: Vec<u8> =
        values.iter().flat_map(|value| (0..5).rev().map(move |bit| u8::from(value >> bit & 1 == 1))).collect();
    Ok(bits.chunks_exact(8).map(|eight| eight.iter().fold(0, |all, bit| all << 1 | bit)).collect())
}

/// RFC 6238 with six digits.
fn one_time_code(secret: &[u8], step: i64) -> String {
    use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
    let tag = sign(&Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret), &step.to_be_bytes());
    let at = usize::from(tag.as_ref()[19] & 15);
    let four = tag.as_ref()[at..at + 4].iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
    format!("{:06}", (four & 0x7fff_ffff) % 1_000_000)
}
