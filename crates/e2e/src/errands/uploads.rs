//! Uploads in parts: what was told is there, and what is there can be continued to the file that was meant.

use std::collections::BTreeMap;

use holdfast_testkit::data::incompressible;
use holdfast_testkit::rng::Prng;
use serde_json::{Value, json};

use super::{Desk, Errand};
use crate::Outcome;
use crate::browser::Upload;
use crate::rig::NAME;

/// Unfinished ones at a time.
const MAX: usize = 4;
/// Finished ones at a time; then all are removed.
const FILES_MAX: usize = 10;
/// Bytes of most: some blocks.
const SMALL_BYTES: u64 = 3 << 20;
/// And of some.
const LARGE_BYTES: u64 = 9 << 20;

/// An upload, or the file it became.
#[derive(Debug, Clone)]
struct Sent {
    upload: Upload,
    seed: u64,
    /// Bytes that are acknowledged.
    told: usize,
    /// Where it may stand if the last part counted.
    perhaps: usize,
}

/// Uploads by the name of their file.
#[derive(Debug)]
pub struct Uploads {
    unfinished: BTreeMap<String, Sent>,
    files: BTreeMap<String, Sent>,
    /// One that was asked to be given up, without an answer.
    perhaps_given_up: Option<String>,
    named: u64,
}

impl Uploads {
    /// Makes their folder.
    pub fn new(desk: &mut Desk) -> Outcome<Self> {
        desk.ann.call("POST", &format!("/folders/{NAME}/sent"), &Value::Null)?.expect_status(201)?;
        Ok(Self { unfinished: BTreeMap::new(), files: BTreeMap::new(), perhaps_given_up: None, named: 0 })
    }

    fn begin(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        self.named += 1;
        let name = format!("file{}", self.named);
        let bytes = match rng.below(6) {
            0 => 1 + rng.below(200),
            1 => LARGE_BYTES - rng.below(1 << 20),
            _ => 1 + rng.below(SMALL_BYTES),
        };
        let (seed, length) = (rng.next_u64(), usize::try_from(bytes)?);
        let pairs = [("space", NAME), ("path", &format!("sent/{name}"))];
        let heard = at.ann.creation(length, &pairs);
        let Some(begun) = at.heard("a creation", heard, &[201])? else { return Ok(false) };
        let address = begun.header("Location").ok_or("no address")?.to_owned();
        self.unfinished.insert(name, Sent { upload: Upload { address, length }, seed, told: 0, perhaps: 0 });
        Ok(true)
    }

    fn go_on(&mut self, at: &mut Desk, rng: &mut Prng, name: &str) -> Outcome<bool> {
        let sent = self.unfinished.get_mut(name).ok_or("no such upload")?;
        let content = incompressible(sent.seed, sent.upload.length);
        let left = content.len() - sent.told;
        let piece = if rng.chance(0.3) { left } else { 1 + rng.index(left) };
        sent.perhaps = sent.told + piece;
        let request = at.ann.part(&sent.upload, sent.told, &content[sent.told..sent.perhaps]);
        let Some(answer) = at.send(&request, &[204])? else { return Ok(false) };
        let told: usize = answer.header("Upload-Offset").ok_or("no offset")?.parse()?;
        assert_eq!(told, sent.perhaps);
        sent.told = told;
        if told == sent.upload.length {
            let (name, sent) = self.unfinished.remove_entry(name).ok_or("no such upload")?;
            self.files.insert(name, sent);
        }
        Ok(true)
    }

    fn give_up(&mut self, at: &mut Desk, name: &str) -> Outcome<bool> {
        let request = at.ann.tus("DELETE", &self.unfinished[name].upload);
        let answered = at.send(&request, &[204])?.is_some();
        if answered {
            self.unfinished.remove(name);
        } else {
            self.perhaps_given_up = Some(name.to_owned());
        }
        Ok(answered)
    }

    /// Where each unfinished one stands.
    fn stand(&mut self, at: &mut Desk) -> Outcome {
        for (name, mut sent) in std::mem::take(&mut self.unfinished) {
            let answer = at.ann.client.send(&at.ann.tus("HEAD", &sent.upload))?;
            if answer.status == 404 && self.perhaps_given_up.as_ref() == Some(&name) {
                continue;
            }
            let offset: usize = answer.expect_status(200)?.header("Upload-Offset").ok_or("no offset")?.parse()?;
            let right = sent.told.min(sent.perhaps)..=sent.perhaps.max(sent.told);
            assert!(right.contains(&offset), "{name} stands at {offset} and not in {right:?}");
            (sent.told, sent.perhaps) = (offset, offset);
            if offset == sent.upload.length { &mut self.files } else { &mut self.unfinished }.insert(name, sent);
        }
        self.perhaps_given_up = None;
        Ok(())
    }

    fn check_files(&self, at: &mut Desk) -> Outcome {
        for (name, sent) in &self.files {
            let file = at.ann.get(&format!("/content/{NAME}/sent/{name}"))?.expect_status(200)?;
            assert!(file.body == incompressible(sent.seed, sent.upload.length), "{name} differs");
        }
        let folder = at.ann.json("GET", &format!("/folders/{NAME}/sent"), &Value::Null, 200)?;
        let names = folder["entries"].as_array().ok_or("no entries")?.iter().filter_map(|entry| entry["name"].as_str());
        assert_eq!(names.collect::<Vec<_>>().len(), self.files.len(), "{folder}");
        Ok(())
    }

    /// What is reserved is what unfinished uploads declared: also one whose beginning was not answered.
    fn check_reserved(at: &mut Desk) -> Outcome {
        let listed = at.ann.json("GET", "/uploads", &Value::Null, 200)?;
        let declared = listed.as_array().ok_or("no list")?.iter().filter_map(|upload| upload["length_bytes"].as_u64());
        assert_eq!(declared.sum::<u64>(), at.ann.reserved(NAME)?, "{listed}");
        Ok(())
    }
}

impl Errand for Uploads {
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool> {
        let names: Vec<String> = self.unfinished.keys().cloned().collect();
        if names.len() < MAX && (names.is_empty() || rng.chance(0.3)) {
            return self.begin(at, rng);
        }
        let name = rng.pick(&names).clone();
        if rng.chance(0.1) { self.give_up(at, &name) } else { self.go_on(at, rng, &name) }
    }

    fn judge(&mut self, at: &mut Desk) -> Outcome {
        self.stand(at)?;
        self.check_files(at)?;
        Self::check_reserved(at)?;
        if self.files.len() > FILES_MAX {
            let place = |name| json!({"space": NAME, "path": format!("/sent/{name}")});
            let items: Vec<Value> = std::mem::take(&mut self.files).into_keys().map(place).collect();
            at.ann.json("POST", "/remove", &json!({"items": items}), 200)?;
        }
        Ok(())
    }
}
