//! Sharing a folder, and making somebody a member.

use std::collections::BTreeMap;

use holdfast_testkit::rng::Prng;
use serde_json::{Value, json};

use super::{Desk, Errand, Known, OTHER, by};
use crate::Outcome;
use crate::rig::NAME;

/// Folders that are shared with somebody; links are made of the first.
const FOLDERS: u64 = 4;
/// Shares there are at a time.
const SHARES_MAX: usize = 12;

/// What may be done through a share, and with whom it is: nobody for a link.
type What = (String, Option<String>);

/// Shares by their label.
#[derive(Debug)]
pub struct Shares {
    known: Known<What>,
    /// How many links are tried after each cut.
    tried: usize,
}

impl Shares {
    /// Makes the folders.
    pub fn new(desk: &mut Desk) -> Outcome<Self> {
        for number in 0..FOLDERS {
            desk.ann.call("POST", &format!("/folders/{NAME}/shared{number}"), &Value::Null)?.expect_status(201)?;
        }
        Ok(Self { known: Known::default(), tried: 2 })
    }

    fn found(at: &mut Desk) -> Outcome<Value> {
        at.ann.json("GET", "/shares", &Value::Null, 200)
    }

    /// The address of a share, which has an id that only its answer and the list tell.
    fn address(at: &mut Desk, label: &str) -> Outcome<Option<String>> {
        let Some(answer) = at.ask("GET", "/shares", &Value::Null, &[200])? else { return Ok(None) };
        let all: Value = serde_json::from_slice(&answer.body)?;
        let id = by(&all["by_me"], "label")?.get(label).and_then(|share| share["id"].as_str()).map(ToOwned::to_owned);
        Ok(Some(format!("/shares/{}", id.ok_or("an acknowledged share is not listed")?)))
    }

    fn make(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let free = (0..FOLDERS).find(|number| {
            let with = format!("shared{number}");
            self.known.things.values().all(|(_, account)| account.as_ref() != Some(&with))
        });
        let with = free.filter(|_| rng.chance(0.4)).map(|number| format!("shared{number}"));
        let access = *rng.pick(if with.is_some() { &["read", "write"] } else { &["read", "write", "upload"] });
        let label = self.known.new_name("share");
        let path = format!("/{}", with.as_deref().unwrap_or("shared0"));
        let mut body = json!({"space": NAME, "path": path, "access": access, "label": label});
        if with.is_some() {
            body["account"] = OTHER.into();
        }
        let answered = at.ask("POST", "/shares", &body, &[201])?.is_some();
        Ok(self.known.changed(label, Some((access.to_owned(), with)), answered))
    }
}

impl Errand for Shares {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let few = self.known.things.len() < SHARES_MAX;
        let Some((label, (_, with))) = self.known.any(rng).filter(|_| !few || rng.chance(0.5)) else {
            return self.make(at, rng);
        };
        let Some(address) = Self::address(at, &label)? else { return Ok(false) };
        if rng.chance(0.5) {
            let answered = at.ask("DELETE", &address, &Value::Null, &[204])?.is_some();
            return Ok(self.known.changed(label, None, answered));
        }
        let access = *rng.pick(&["read", "write"]);
        let answered = at.ask("PATCH", &address, &json!({"access": access}), &[200])?.is_some();
        Ok(self.known.changed(label, Some((access.to_owned(), with)), answered))
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        let all = Self::found(at)?;
        let what = |share: &Value| -> Option<What> {
            let with = share["account"]
                .as_str()
                .map(|_| share["path"].as_str().unwrap_or_default().trim_matches('/').to_owned());
            Some((share["access"].as_str()?.to_owned(), with))
        };
        let listed = by(&all["by_me"], "label")?;
        let found = listed.iter().map(|(label, share)| Some((label.clone(), what(share)?)));
        self.known.compare(&found.collect::<Option<_>>().ok_or("a share without access")?)?;
        // What is there works: it opens with the keys it has.
        let links = listed.values().filter(|share| share["link"].is_string());
        for share in links.take(self.tried) {
            let mut visit = at.ann.visiting(share, None)?;
            let status = visit.get("/nodes/link/")?.status;
            let right = if share["access"] == "upload" { 403 } else { 200 };
            assert_eq!(status, right, "{share}");
        }
        let with_ben = at.ben.json("GET", "/shares", &Value::Null, 200)?;
        let names: Vec<&Value> = with_ben["with_me"].as_array().ok_or("no list")?.iter().collect();
        assert_eq!(names.len(), self.known.things.values().filter(|(_, with)| with.is_some()).count(), "{with_ben}");
        for share in names {
            let view = share["space"].as_str().ok_or("no name")?.replace(' ', "%20");
            at.ben.get(&format!("/folders/{view}/"))?.expect_status(200)?;
        }
        Ok(())
    }
}

/// What ben is in ann's space.
#[derive(Debug, Default)]
pub struct Members {
    known: Known<String>,
}

impl Errand for Members {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let path = format!("/spaces/{NAME}/members/{OTHER}");
        if self.known.things.contains_key(OTHER) && rng.chance(0.4) {
            let answered = at.ask("DELETE", &path, &Value::Null, &[204])?.is_some();
            return Ok(self.known.changed(OTHER.to_owned(), None, answered));
        }
        let role = *rng.pick(&["reader", "editor"]);
        let answered = at.ask("PUT", &path, &json!({"role": role}), &[204])?.is_some();
        Ok(self.known.changed(OTHER.to_owned(), Some(role.to_owned()), answered))
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        let members = at.ann.json("GET", &format!("/spaces/{NAME}/members"), &Value::Null, 200)?;
        let mut found = BTreeMap::new();
        for (account, member) in by(&members, "account")? {
            found.insert(account, member["role"].as_str().unwrap_or_default().to_owned());
        }
        assert_eq!(found.remove(NAME).as_deref(), Some("owner"));
        self.known.compare(&found)?;
        let right = if found.is_empty() { 404 } else { 200 };
        assert_eq!(at.ben.get(&format!("/folders/{NAME}/"))?.status, right);
        Ok(())
    }
}
