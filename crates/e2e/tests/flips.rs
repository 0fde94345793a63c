//! Flipped bits: in a pack, and in the catalogue. Wrong bytes are never given out; a check finds what it can.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use holdfast_e2e::Outcome;
use holdfast_e2e::care::{check, expect_clean};
use holdfast_e2e::corpus::{CorpusFile, store};
use holdfast_e2e::engines::Engines;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, Rig};
use holdfast_testkit::http::Client;
use holdfast_testkit::postgres::{Durability, PostgresServer};
use holdfast_testkit::rng::Prng;

/// Flips bits of a byte on the disk, under the program.
fn flip(path: &Path, offset: u64, mask: u8) -> Outcome {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    file.write_all_at(&[byte[0] ^ mask], offset)?;
    Ok(())
}

/// How the files of the corpus came back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    right: usize,
    /// Status 5xx with a message, or a body that breaks off.
    refused: usize,
    /// Status 404: the name is another.
    gone: usize,
}

/// Reads everything; wrong bytes fail the test.
fn read_all(client: &mut Client, corpus: &[CorpusFile]) -> Outcome<Answers> {
    let mut answers = Answers::default();
    for file in corpus {
        match client.get(&file.path) {
            Ok(answer) if answer.status == 200 => {
                if answer.body != file.content {
                    let whose =
                        corpus.iter().find(|other| other.content == answer.body).map(|other| other.path.as_str());
                    return Err(format!("{}: wrong bytes were given out, those of {whose:?}", file.path).into());
                }
                answers.right += 1;
            }
            Ok(answer) if answer.status >= 500 => {
                if answer.body.len() < 20 {
                    return Err(format!("{}: «{}» helps nobody", file.path, answer.text()).into());
                }
                answers.refused += 1;
            }
            Ok(answer) if matches!(answer.status, 401 | 403 | 404 | 429) => answers.gone += 1,
            Ok(answer) => return Err(format!("{}: status {}", file.path, answer.status).into()),
            // The damage was met after the answer had begun.
            Err(_) => answers.refused += 1,
        }
    }
    Ok(answers)
}

/// `HOLDFAST_FLIPS` sets how many.
#[test]
fn a_flipped_bit_of_a_pack_is_found_by_check_and_never_read_as_content() -> Outcome {
    let mut rig = Rig::new()?;
    let corpus = store(&mut rig.client(), &format!("{HOME}/corpus"))?;
    // A clean stop closes the pack: it has an index.
    rig.stop()?;
    rig.start_again()?;
    let mut client = rig.client();
    expect_clean(rig.server.options())?;
    let objects = rig.objects()?;
    let names = objects.names()?;
    assert!(!names.is_empty());
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    let (mut refused, mut unseen) = (0, Vec::new());
    let flips = knob("HOLDFAST_FLIPS", 150_u64);
    for number in 0..flips {
        let name = rng.pick(&names);
        let bytes = objects.bytes_of(name)?;
        // Half of them in the ends, where header, index and trailer are.
        let offset = match number % 4 {
            0 => rng.below(200.min(bytes)),
            1 => bytes - 1 - rng.below(600.min(bytes)),
            _ => rng.below(bytes),
        };
        let mask = 1 << rng.below(8);
        objects.flip(name, offset, mask)?;
        // Another process: this one keeps blocks for a while after it opened them.
        rig.stop()?;
        rig.start_again()?;
        client = rig.client();
        let answers = read_all(&mut client, &corpus).map_err(|error| format!("byte {offset} of {bytes}: {error}"))?;
        assert_eq!(answers.gone, 0, "byte {offset} of {bytes}");
        refused += answers.refused;
        let (report, code) = check(rig.server.options())?;
        if report["findings"].as_array().is_none_or(Vec::is_empty) || code != Some(65) {
            unseen.push((offset, bytes, mask));
        }
        objects.flip(name, offset, mask)?;
    }
    println!("{flips} flips, {refused} reads refused");
    assert!(unseen.is_empty(), "check saw nothing of these (offset, length, mask): {unseen:?}");
    assert_eq!(read_all(&mut client, &corpus)?.right, corpus.len());
    expect_clean(rig.server.options())
}

/// The catalogue holds names in clear, so a flipped name is another name. Content is never wrong, and nothing breaks down. The flips
/// are in the file of SQLite, or in those that PostgreSQL (which sums its pages) has tables and indexes in.
#[test]
fn a_flipped_bit_of_the_catalogue_never_gives_out_wrong_bytes() -> Outcome {
    let engines = Engines::of_environment()?;
    // A server of its own: it is stopped, damaged and mended.
    let mut server = engines.postgres.then(|| PostgresServer::start(Durability::Logic)).transpose()?;
    let database = server.as_ref().map(PostgresServer::database).transpose()?;
    let mut rig = Rig::on(engines.place_with(database.clone()), |options| options)?;
    let corpus = store(&mut rig.client(), &format!("{HOME}/corpus"))?;
    rig.stop()?;
    let files = match (&server, &database) {
        (Some(server), Some(url)) => server.files_of(url)?,
        _ => vec![rig.data().join("catalogue.db")],
    };
    let whole = Whole::keep(&rig, server.as_mut())?;
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    let (mut refused_starts, mut found, mut answers) = (0, 0, Answers::default());
    let flips = knob("HOLDFAST_FLIPS", 150_u64);
    for _ in 0..flips {
        let path = rng.pick(&files);
        let (offset, mask) = flip_something(path, &mut rng)?;
        if let Some(server) = &mut server {
            server.resume()?;
        }
        let (report, code) = check_or_refusal(&rig)?;
        found += u64::from(code != Some(0));
        match rig.server.start_again() {
            Ok(server) => {
                rig.server = server;
                let now = read_all(&mut rig.client(), &corpus)
                    .map_err(|error| format!("{path:?} byte {offset} mask {mask}: {error}; check said {report}"))?;
                answers.right += now.right;
                answers.refused += now.refused;
                answers.gone += now.gone;
                rig.server.kill_9()?;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("holdfast: ") && !text.contains("panicked"), "byte {offset}: {text}");
                refused_starts += 1;
            }
        }
        whole.put_back(&rig, server.as_mut())?;
    }
    println!("{flips} flips: check found {found}, {refused_starts} starts refused, {answers:?}");
    if let Some(server) = &mut server {
        server.resume()?;
    }
    rig.start_again()?;
    assert_eq!(read_all(&mut rig.client(), &corpus)?.right, corpus.len());
    Ok(())
}

/// Flips a bit somewhere in a file; answers where and which.
fn flip_something(path: &Path, rng: &mut Prng) -> Outcome<(u64, u8)> {
    let bytes = std::fs::read(path)?;
    // Most of a small database is empty pages; a flip there proves nothing.
    let offset = loop {
        let offset = rng.below(bytes.len() as u64);
        if bytes[usize::try_from(offset)?] != 0 {
            break offset;
        }
    };
    let mask = 1 << rng.below(8);
    flip(path, offset, mask)?;
    Ok((offset, mask))
}

/// The catalogue as it was, while it is damaged; that of a server is stopped.
struct Whole(tempfile::TempDir);

impl Whole {
    fn keep(rig: &Rig, server: Option<&mut PostgresServer>) -> Outcome<Self> {
        let whole = Self(tempfile::tempdir()?);
        match server {
            Some(server) => {
                // So that a start does not write the pages anew from the log.
                server.sql("postgres", "CHECKPOINT")?;
                server.crash()?;
                copy_folder(&server.folder().join("data"), &whole.0.path().join("data"))?;
            }
            None => drop(std::fs::copy(rig.data().join("catalogue.db"), whole.0.path().join("catalogue.db"))?),
        }
        Ok(whole)
    }

    fn put_back(&self, rig: &Rig, server: Option<&mut PostgresServer>) -> Outcome {
        if let Some(server) = server {
            server.crash()?;
            let data = server.folder().join("data");
            std::fs::remove_dir_all(&data)?;
            return copy_folder(&self.0.path().join("data"), &data);
        }
        for leftover in ["catalogue.db-wal", "catalogue.db-shm"] {
            std::fs::remove_file(rig.data().join(leftover)).ok();
        }
        std::fs::copy(self.0.path().join("catalogue.db"), rig.data().join("catalogue.db"))?;
        Ok(())
    }
}

/// With its owner and modes.
fn copy_folder(from: &Path, to: &Path) -> Outcome {
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    if status.success() { Ok(()) } else { Err(format!("cp of {}: {status}", from.display()).into()) }
}

/// What check says of a damaged catalogue: a report, or that it cannot be opened. It must not panic or die of a signal.
fn check_or_refusal(rig: &Rig) -> Outcome<(String, Option<i32>)> {
    let output = rig.run(&["check", "--read-data", "--json"], b"")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code().is_none() || said.contains("panicked") {
        return Err(format!("check ended with {}: {said}", output.status).into());
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok((format!("{} {said}", report["findings"]), output.status.code()))
}
