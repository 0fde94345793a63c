//! Tokens and sessions: what signs in without a password.

use std::collections::BTreeMap;

use holdfast_testkit::http::Request;
use holdfast_testkit::rng::Prng;
use serde_json::{Value, json};

use super::{Desk, Errand, Known, by};
use crate::Outcome;
use crate::rig::{HOME, NAME, PASSWORD};

/// Of each there are at a time.
const MAX: usize = 8;

/// App tokens by their label.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Their id; none is told of one whose answer did not come.
    known: Known<()>,
    /// The secrets that were told.
    secrets: BTreeMap<String, String>,
}

impl Errand for Tokens {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let few = self.known.things.len() < MAX;
        let Some((label, ())) = self.known.any(rng).filter(|_| !few || rng.chance(0.4)) else {
            let label = self.known.new_name("token");
            let answer = at.ask("POST", "/tokens", &json!({"label": label}), &[201])?;
            if let Some(answer) = &answer {
                let made: Value = serde_json::from_slice(&answer.body)?;
                let secret = made["token"].as_str().ok_or("no token was told")?;
                self.secrets.insert(label.clone(), secret.to_owned());
            }
            return Ok(self.known.changed(label, Some(()), answer.is_some()));
        };
        let Some(answer) = at.ask("GET", "/tokens", &Value::Null, &[200])? else { return Ok(false) };
        let all: Value = serde_json::from_slice(&answer.body)?;
        let id =
            by(&all, "label")?.get(&label).map(|token| token["id"].clone()).ok_or("an acknowledged token is gone")?;
        let answered = at.ask("DELETE", &format!("/tokens/{id}"), &Value::Null, &[204])?.is_some();
        Ok(self.known.changed(label, None, answered))
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        let all = at.ann.json("GET", "/tokens", &Value::Null, 200)?;
        let mut found = by(&all, "label")?;
        found.retain(|label, _| label.starts_with("token"));
        self.known.compare(&found.into_keys().map(|label| (label, ())).collect())?;
        for (label, secret) in &self.secrets {
            let mut client = at.ann.client.clone().with_account(NAME, secret);
            let status = client.send(&Request::new("PROPFIND", HOME).header("Depth", "0"))?.status;
            let right = if self.known.things.contains_key(label) { 207 } else { 401 };
            assert_eq!(status, right, "{label}");
        }
        // One that was taken back is tried once.
        self.secrets.retain(|label, _| self.known.things.contains_key(label));
        Ok(())
    }
}

/// Sessions by their cookie.
#[derive(Debug, Default)]
pub struct Sessions {
    known: Known<()>,
    ended: Vec<String>,
}

impl Errand for Sessions {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let few = self.known.things.len() < MAX;
        let Some((cookie, ())) = self.known.any(rng).filter(|_| !few || rng.chance(0.4)) else {
            let mut at = Desk { ann: at.ann.with_cookie(None), ..at.clone() };
            let body = json!({"name": NAME, "password": PASSWORD});
            let answered = at.ask("POST", "/session", &body, &[200])?.is_some();
            if let Some(cookie) = at.ann.cookie.filter(|_| answered) {
                self.known.set(cookie, Some(()));
            }
            return Ok(answered);
        };
        let page = at.ann.with_cookie(Some(cookie.clone()));
        let answered = Desk { ann: page, ..at.clone() }.ask("DELETE", "/session", &Value::Null, &[204])?.is_some();
        if answered {
            self.ended.push(cookie.clone());
        }
        Ok(self.known.changed(cookie, None, answered))
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        let status =
            |cookie: &str| -> Outcome<u16> { Ok(at.ann.with_cookie(Some(cookie.to_owned())).get("/me")?.status) };
        let mut found = BTreeMap::new();
        for cookie in self.known.things.keys() {
            match status(cookie)? {
                200 => found.insert(cookie.clone(), ()),
                401 => None,
                other => return Err(format!("a session is answered with {other}").into()),
            };
        }
        self.known.compare(&found)?;
        for cookie in self.ended.drain(..) {
            assert_eq!(status(&cookie)?, 401, "a session that was ended");
        }
        Ok(())
    }
}
