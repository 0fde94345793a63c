//! Pushes to a drive whose machine loses its power, or whose disk is full, again and again: the same command goes on, and what it said is done, is there.
//!
//! Chains of power cuts are as in `crash_disk`.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::disk::{Template, mount, run_chains};
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_testkit::crashdisk::{Action, Config, CrashDisk, Fault, OpKind};
use holdfast_testkit::http::Client;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::TestServer;

/// Power cuts of a chain.
const LINKS: u64 = 8;
/// Changes of the disk after which the power goes: up to 2 to the power of a number in this range.
const CHANGES_LOG2: std::ops::Range<u64> = 1..9;
/// Files that are new, or changed, before each push.
const NEWS: u64 = 4;
/// Names there are in all.
const NAMES: u64 = 12;
/// Files have up to 2 to the power of a number in this range of bytes: one block, and several.
const BYTES_LOG2: std::ops::Range<u64> = 6..23;
/// What is free on a disk that is going to be full.
const FREE_BYTES: u64 = 40 << 20;
/// How often it is looked whether the power is off.
const LOOK: Duration = Duration::from_millis(50);
/// Some of the command fails.
const PARTIAL: i32 = 74;

/// A folder that is pushed, and what of it was said to be there.
struct Source {
    folder: tempfile::TempDir,
    token: PathBuf,
    /// What each file has.
    has: HashMap<String, Vec<u8>>,
    /// What each file had when it was told as done.
    told: HashMap<String, Vec<u8>>,
    /// All that each file has had since, whose push may have been done and not told.
    since: HashMap<String, Vec<Vec<u8>>>,
}

impl Source {
    fn new(token: &str) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("files"))?;
        let file = folder.path().join("token");
        fs::write(&file, token)?;
        Ok(Self { token: file, folder, has: HashMap::new(), told: HashMap::new(), since: HashMap::new() })
    }

    /// Makes some files, or gives them other content.
    fn change(&mut self, rng: &mut Prng) -> Outcome {
        for _ in 0..NEWS {
            let name = format!("file {}", rng.below(NAMES));
            let log2 = BYTES_LOG2.start + rng.below(BYTES_LOG2.end - BYTES_LOG2.start);
            let mut content = vec![0; usize::try_from(1 + rng.below(1 << log2))?];
            rng.fill(&mut content);
            fs::write(self.folder.path().join("files").join(&name), &content)?;
            self.since.entry(name.clone()).or_default().push(content.clone());
            self.has.insert(name, content);
        }
        Ok(())
    }

    /// All of it is told as done.
    fn all_is_told(&mut self) {
        self.told = self.has.clone();
        self.since.clear();
    }

    /// Pushes all until it ends, or the power is off, and takes down what is told as done. Answers how it ended, if it did, and what it said.
    fn push(&mut self, server: &TestServer, disk: &CrashDisk) -> Outcome<(Option<ExitStatus>, String)> {
        let mut command = server.options().command()?;
        command.args(["push", "--json", "--token-file"]).arg(&self.token);
        let there = format!("{}/{NAME}/there", server.url().trim_end_matches('/'));
        command.arg(self.folder.path().join("files/.")).arg(there);
        let path = self.folder.path().join("said");
        let mut push = command.stdin(Stdio::null()).stdout(fs::File::create(&path)?).spawn()?;
        let ended = loop {
            if let Some(ended) = push.try_wait()? {
                break Some(ended);
            }
            if disk.wait_powered_off(LOOK) {
                push.kill()?;
                push.wait()?;
                break None;
            }
        };
        let said = fs::read_to_string(&path)?;
        // The last line may be cut off.
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        for line in whole.lines() {
            let event: serde_json::Value = serde_json::from_str(line)?;
            if (&event["event"], &event["what"]) == (&"done".into(), &"file".into()) {
                let path = event["path"].as_str().unwrap_or_default();
                let name = path.rsplit('/').next().unwrap_or_default();
                let content = self.has.get(name).ok_or_else(|| format!("{path} was pushed and is none of ours"))?;
                self.told.insert(name.to_owned(), content.clone());
                self.since.remove(name);
            }
        }
        Ok((ended, said))
    }

    /// What was told as done is there: or what came after it, whose push was not told, and which has to stay there from now on.
    fn judge(&mut self, client: &mut Client) -> Outcome {
        for (name, told) in &mut self.told {
            let got = client.get(&format!("{HOME}/there/{name}"))?.expect_status(200);
            let got = got.map_err(|error| format!("{name}, which has {} bytes: {error}", told.len()))?;
            if got.body == *told {
                continue;
            }
            let since = self.since.entry(name.clone()).or_default();
            let Some(at) = since.iter().position(|content| got.body == *content) else {
                let (is, was) = (got.body.len(), told.len());
                let since: Vec<_> = since.iter().map(Vec::len).collect();
                return Err(format!("{name} has {is} bytes, and is not what was pushed ({was}, {since:?})").into());
            };
            *told = since.drain(..=at).next_back().unwrap_or_default();
        }
        Ok(())
    }
}

/// `HOLDFAST_TRANSFER_CUTS` sets how many cuts there are in all, `HOLDFAST_SEED` the first chain.
#[test]
fn nothing_that_was_told_as_pushed_is_lost_when_the_servers_power_is_cut() -> Outcome {
    let chains = knob("HOLDFAST_TRANSFER_CUTS", 32_u64).div_ceil(LINKS);
    let first = knob("HOLDFAST_SEED", 1_u64);
    let template = Template::make()?;
    let told = run_chains(first..first + chains, |seed| run_chain(&template, seed))?;
    println!("{} power cuts, {told} files told as done before them, none lost", chains * LINKS);
    assert!(told > chains, "the power was cut before anything was done: {told}");
    Ok(())
}

fn run_chain(template: &Template, seed: u64) -> Outcome<u64> {
    let mut rng = Prng::new(seed);
    let config = if seed.is_multiple_of(2) { Config::default() } else { Config::ext4_like() };
    let (mut image, place) = (template.image(config), template.place.copy()?);
    let mut source = Source::new(template.token())?;
    let mut told = 0;
    for link in 0..=LINKS {
        let mounted = mount(image, &place)?;
        let mut server = mounted.options()?.start()?;
        let failed =
            |error: Box<dyn std::error::Error + Send + Sync>| format!("link {link}: {error}\n{}", server.log());
        source.judge(&mut template.client(&server)).and_then(|()| expect_clean(server.options())).map_err(failed)?;
        source.change(&mut rng)?;
        if link < LINKS {
            let changes = 1 << (CHANGES_LOG2.start + rng.below(CHANGES_LOG2.end - CHANGES_LOG2.start));
            mounted.disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(changes)));
        }
        let (ended, said) = source.push(&server, &mounted.disk)?;
        told += said.matches("\"what\":\"file\"").count() as u64;
        if link == LINKS {
            // Nothing is in the way of the last one.
            assert!(ended.is_some_and(|ended| ended.success()), "{said}");
            // Some were there already, and had not been told when the power went.
            source.all_is_told();
            source.judge(&mut template.client(&server))?;
            expect_clean(server.options())?;
        }
        server.kill_9()?;
        image = mounted.disk.power_cut(rng.next_u64());
    }
    Ok(told)
}

#[test]
fn a_push_to_a_full_disk_fails_for_what_has_no_room_and_goes_on_when_there_is_some() -> Outcome {
    let template = Template::make()?;
    let mounted = template.mount()?;
    let mut server = mounted.options()?.start()?;
    let mut source = Source::new(template.token())?;
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    for name in 0..NAMES {
        let mut content = vec![0; if name % 3 == 0 { 12 << 20 } else { 100_000 }];
        rng.fill(&mut content);
        fs::write(source.folder.path().join(format!("files/file {name}")), &content)?;
        source.has.insert(format!("file {name}"), content);
    }
    mounted.disk.set_capacity(mounted.disk.used_bytes() + FREE_BYTES);
    let (ended, said) = source.push(&server, &mounted.disk)?;
    assert_eq!(ended.and_then(|ended| ended.code()), Some(PARTIAL), "{said}");
    assert!((1..source.has.len()).contains(&source.told.len()), "{said}");
    assert!(said.contains("has no room for this"), "it says why: {said}");
    source.judge(&mut template.client(&server))?;
    // The power goes while the disk is full.
    server.kill_9()?;
    let after = mount(mounted.disk.power_cut(1), &mounted.place)?;
    after.disk.set_capacity(1 << 30);
    let server = after.options()?.start()?;
    source.judge(&mut template.client(&server))?;
    let (ended, said) = source.push(&server, &after.disk)?;
    assert!(ended.is_some_and(|ended| ended.success()), "{said}");
    source.all_is_told();
    source.judge(&mut template.client(&server))?;
    expect_clean(server.options())
}
