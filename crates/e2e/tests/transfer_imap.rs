//! `holdfast pull`, `push` and `sync` from mailboxes of Dovecot: killed in between, and where something is wrong.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_e2e::Outcome;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use holdfast_testkit::services::dovecot::{Dovecot, PASSWORD};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

const MIB: usize = 1 << 20;
/// When all messages came in: on 14 November 2023.
const CAME: u64 = 1_700_000_000;
/// A server that cannot remove a message alone.
const NO_UIDPLUS: &str = "imap_capability = IMAP4rev1";

/// A server, and a folder of this machine.
struct Both {
    server: Dovecot,
    folder: tempfile::TempDir,
}

impl Both {
    fn start(more: &str) -> Outcome<Self> {
        let (server, folder) = (Dovecot::start(more)?, tempfile::tempdir()?);
        fs::write(folder.path().join("password"), format!("{PASSWORD}\n"))?;
        Ok(Self { server, folder })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Puts messages into a mailbox, numbered from `first` on.
    fn put(&self, mailbox: &str, first: usize, mails: &[Vec<u8>]) -> Outcome {
        let mails = mails.iter().zip(first..).map(|(mail, number)| (format!("{number:06}.x"), &mail[..]));
        Ok(self.server.put(mailbox, mails, SystemTime::UNIX_EPOCH + Duration::from_secs(CAME))?)
    }

    fn command(&self, words: &[&str]) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.args(words).arg("--json").arg("--password-file").arg(self.at("password"));
        command.arg("--ca").arg(self.server.authority()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn run(&self, words: &[&str]) -> Outcome<Value> {
        let output = self.command(words)?.output()?;
        assert!(output.status.success(), "{words:?}: {output:?}");
        end_of(&output)
    }

    /// Pulls what is in a mailbox to `to`.
    fn pull(&self, mailbox: &str, more: &[&str]) -> Outcome<Value> {
        let (from, to) = (self.server.url(&format!("{mailbox}/.")), self.at("to").display().to_string());
        self.run(&[&["pull", &from, &to], more].concat())
    }
}

fn end_of(output: &Output) -> Outcome<Value> {
    let text = std::str::from_utf8(&output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().ok_or_else(|| format!("nothing was said: {output:?}"))?)?)
}

fn counts(end: &Value) -> [Option<u64>; 4] {
    ["files", "same", "failed", "moved_bytes"].map(|name| end[name].as_u64())
}

fn random(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    (0..=size / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(size).collect()
}

/// A part with such heads, and content as it is written.
fn part(heads: &str, written: &str) -> String {
    format!("--=_b\n{heads}\n\n{written}\n")
}

/// An attached file in base64.
fn file(name: &str, content: &[u8]) -> String {
    let written = STANDARD.encode(content);
    let lines: Vec<&str> = written.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let heads = format!(
        "Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment; {name}"
    );
    part(&heads, &lines.join("\n"))
}

fn mail(subject: &str, parts: &[String]) -> Vec<u8> {
    let text = part("Content-Type: text/plain; charset=utf-8", "the text of the mail");
    let heads = "From: ann@example.org\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=_b\"";
    format!("Subject: {subject}\n{heads}\n\n{text}{}--=_b--\n", parts.concat()).into_bytes()
}

/// A mail with what names and encodings there are, and what has to arrive of it.
fn mixed() -> (Vec<u8>, Vec<(&'static str, Vec<u8>)>) {
    let (large, small) = (random(3 * MIB + 77, 1), random(1_000, 2));
    let within = String::from_utf8_lossy(&mail("inner", &[file("filename=inner.bin", b"inner")])).replace("=_b", "=_c");
    let parts = [
        file("filename=\"large.bin\"", &large),
        file("filename=\"../../climbs\"", &small),
        file("filename=\"same.bin\"", b"one"),
        file("filename=\"same.bin\"", b"two"),
        file("filename*0*=utf-8''%C3%A4%20;\n filename*1=b.txt", b"pieces"),
        file("filename=\"=?iso-8859-1?Q?=FCber.txt?=\"", b""),
        part(
            "Content-Type: text/csv; name=quoted.csv\nContent-Transfer-Encoding: quoted-printable",
            "a=3Db;=C3=A9; =20\njoin=\ned  ",
        ),
        part("Content-Type: text/plain\nContent-Transfer-Encoding: 8bit\nContent-Disposition: attachment", "é\nx"),
        part("Content-Type: image/png\nContent-Transfer-Encoding: base64\nContent-ID: <1>", "aW1hZ2U="),
        part("Content-Type: message/rfc822\nContent-Disposition: attachment; filename=forwarded.eml", &within),
    ];
    let expected = vec![
        ("large.bin", large),
        ("climbs", small),
        ("same.bin", b"one".to_vec()),
        ("same (2).bin", b"two".to_vec()),
        ("ä b.txt", b"pieces".to_vec()),
        ("über.txt", Vec::new()),
        ("quoted.csv", "a=b;é;  \r\njoined".into()),
        ("part-9.txt", "é\r\nx".into()),
        ("part-10.png", b"image".to_vec()),
        ("forwarded.eml", within.replace('\n', "\r\n").into_bytes()),
    ];
    (mail("=?utf-8?Q?Caf=C3=A9?= / Re: ../x", &parts), expected)
}

fn assert_folder(at: &Path, expected: &[(&str, Vec<u8>)]) -> Outcome {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(at)? {
        found.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let mut names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    found.sort();
    names.sort_unstable();
    assert_eq!(found, names);
    for (name, content) in expected {
        let file = at.join(name);
        let read = fs::read(&file)?;
        assert!(read == *content, "{name}: {:?}", String::from_utf8_lossy(&read[..read.len().min(200)]));
        assert_eq!(fs::metadata(&file)?.modified()?, SystemTime::UNIX_EPOCH + Duration::from_secs(CAME), "{name}");
    }
    Ok(())
}

#[test]
fn attachments_arrive_as_they_were_before_they_were_sent() -> Outcome {
    let both = Both::start("")?;
    let (mixed, expected) = mixed();
    let plain = b"Subject: nothing attached\n\ntext\n".to_vec();
    let single =
        b"Subject: \nContent-Type: application/pdf; name=\"only.pdf\"\nContent-Transfer-Encoding: base64\n\ncGRm\n"
            .to_vec();
    both.put("", 1, &[mixed, plain])?;
    both.put("Projekte/&AMQ-pfel", 1, &[single])?;
    let end = both.pull("INBOX", &[])?;
    assert_eq!(counts(&end)[..3], [Some(10), Some(0), Some(0)], "{end}");
    assert_folder(&both.at("to/1 2023-11-14 Café _ Re: .._x"), &expected)?;
    assert_eq!(fs::read_dir(both.at("to"))?.count(), 1, "a mail with nothing attached is no folder");
    let again = both.pull("INBOX", &[])?;
    assert_eq!(counts(&again), [Some(0), Some(10), Some(0), Some(0)], "{again}");
    // All mailboxes, and one file.
    let (all, one) = (both.at("all").display().to_string(), both.at("one").display().to_string());
    let end = both.run(&["sync", &both.server.url(""), &all])?;
    assert_eq!(end["files"].as_u64(), Some(11), "{end}");
    assert_folder(&both.at("all/Projekte/Äpfel/1 2023-11-14"), &[("only.pdf", b"pdf".to_vec())])?;
    let address = both.server.url("INBOX/1%202023-11-14%20Caf%C3%A9%20_%20Re:%20.._x/large.bin");
    both.run(&["pull", &address, &one])?;
    assert_folder(&both.at("one"), &expected[..1])?;
    // Nothing was marked as seen, and what is removed on the server goes with --delete.
    assert!(both.server.messages("")?.iter().all(|name| !name.contains(":2,S")));
    fs::remove_file(both.server.mailbox("Projekte/&AMQ-pfel").join(find(&both, "Projekte/&AMQ-pfel")?))?;
    let end = both.run(&["sync", &both.server.url(""), &all, "--delete"])?;
    assert_eq!((end["same"].as_u64(), end["moved_bytes"].as_u64()), (Some(10), Some(0)), "{end}");
    assert!(!both.at("all/Projekte/Äpfel/1 2023-11-14").exists());
    Ok(())
}

/// The path of the first message's file within its mailbox.
fn find(both: &Both, mailbox: &str) -> Outcome<String> {
    let name = both.server.messages(mailbox)?.into_iter().next().ok_or("there is no message")?;
    let new = format!("new/{name}");
    Ok(if both.server.mailbox(mailbox).join(&new).exists() { new } else { format!("cur/{name}") })
}

#[test]
fn a_mailbox_of_thousands_is_pulled_and_a_second_run_moves_nothing() -> Outcome {
    let both = Both::start("")?;
    let mails: Vec<_> = (0..5_000)
        .map(|number| mail(&format!("number {number}"), &[file("filename=x", &random(2_000, number))]))
        .collect();
    both.put("", 1, &mails)?;
    let begun = Instant::now();
    let end = both.pull("INBOX", &[])?;
    let first = begun.elapsed();
    assert_eq!(counts(&end), [Some(5_000), Some(0), Some(0), Some(10_000_000)], "{end}");
    let begun = Instant::now();
    let again = both.pull("INBOX", &[])?;
    println!("5,000 messages: {first:?}, again {:?}", begun.elapsed());
    assert_eq!(counts(&again), [Some(0), Some(5_000), Some(0), Some(0)], "{again}");
    for number in [0, 499, 500, 4_999] {
        let at = both.at("to").join(format!("{} 2023-11-14 number {number}/x", number + 1));
        assert_eq!(fs::read(at)?, random(2_000, number));
    }
    Ok(())
}

/// Bytes of part files in a folder.
fn part_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn a_pull_that_was_killed_goes_on_where_it_was() -> Outcome {
    let both = Both::start("")?;
    let content = random(12 * MIB + 345, 3);
    both.put("", 1, &[mail("large", &[file("filename=large", &content)])])?;
    let (from, to) = (both.server.url("INBOX/."), both.at("to").display().to_string());
    let within = both.at("to/1 2023-11-14 large");
    let mut child = both.command(&["pull", &from, &to, "--limit-rate", "6M"])?.spawn()?;
    while part_bytes(&within) < 6 * MIB as u64 {
        assert!(child.try_wait()?.is_none(), "it was done too soon");
        sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let end = both.pull("INBOX", &[])?;
    println!("{} of {} bytes stood", end["stood_bytes"], content.len());
    assert!(end["stood_bytes"].as_u64() >= Some(4 * MIB as u64), "{end}");
    assert!(fs::read(within.join("large"))? == content);
    Ok(())
}

#[test]
fn a_message_that_vanishes_after_it_was_listed_fails_alone() -> Outcome {
    let both = Both::start("")?;
    let first = random(6 * MIB, 5);
    let mails = [mail("a", &[file("filename=a", &first)]), mail("b", &[file("filename=b", &random(3 * MIB, 6))])];
    both.put("", 1, &mails)?;
    let (from, to) = (both.server.url("INBOX/."), both.at("to").display().to_string());
    let words = ["pull", &from, &to, "--jobs", "1", "--limit-rate", "2M"];
    let child = both.command(&words)?.spawn()?;
    while part_bytes(&both.at("to/1 2023-11-14 a")) < 2 * MIB as u64 {
        sleep(Duration::from_millis(1));
    }
    for folder in ["cur", "new"] {
        for entry in fs::read_dir(both.server.mailbox("").join(folder))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("000002.x") {
                fs::remove_file(entry.path())?;
            }
        }
    }
    let output = child.wait_with_output()?;
    let end = end_of(&output)?;
    assert_eq!((output.status.code(), end["failed"].as_u64()), (Some(74), Some(1)), "{output:?}");
    assert!(fs::read(both.at("to/1 2023-11-14 a/a"))? == first);
    let said = String::from_utf8(output.stdout)?;
    assert!(said.contains("not there any more") || said.contains("vanished"), "{said}");
    Ok(())
}

#[test]
fn what_is_wrong_with_the_sign_in_or_the_address_ends_the_command() -> Outcome {
    let both = Both::start("")?;
    both.put("", 1, &[mail("a", &[file("filename=a", b"a")])])?;
    let (from, to) = (both.server.url("INBOX/."), both.at("to").display().to_string());
    fs::write(both.at("wrong"), "guess\n")?;
    let authority = both.server.authority().display().to_string();
    let (right, wrong) = (both.at("password").display().to_string(), both.at("wrong").display().to_string());
    let missing = both.server.url("None/.");
    for (words, code, what) in [
        (vec!["pull", &from, &to, "--password-file", &wrong, "--ca", &authority], 77, "signing in as ann"),
        (vec!["pull", &from, &to, "--password-file", &right], 77, "is not believed"),
        (vec!["pull", &from, &to, "--ca", &authority], 64, "--password-file"),
        (vec!["push", &to, &from, "--password-file", &right, "--ca", &authority], 64, "nothing can be put into"),
        (vec!["pull", &missing, &to, "--password-file", &right, "--ca", &authority], 66, "there is no"),
    ] {
        let output = Command::new(program()?).args(&words).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(what), "{words:?} {said}");
        assert!(output.status.code() == Some(code) || (code == 66 && !output.status.success()), "{words:?} {output:?}");
    }
    Ok(())
}

#[test]
fn a_message_is_removed_when_all_of_its_attachments_were_moved() -> Outcome {
    let both = Both::start("")?;
    let two =
        |number: u64| [file("filename=a.bin", &random(5_000, number)), file("filename=b.txt", &random(300, number))];
    let mails: Vec<_> = (0..20).map(|number| mail("two", &two(number))).collect();
    both.put("", 1, &mails)?;
    both.put("", 21, &[b"Subject: nothing attached\n\ntext\n".to_vec()])?;
    let (from, to) = (both.server.url("INBOX/."), both.at("to").display().to_string());
    let end = both.run(&["push", &from, &to, "--delete-source", "--exclude", "*.txt"])?;
    assert_eq!(end["files"].as_u64(), Some(20), "{end}");
    assert_eq!(both.server.messages("")?.len(), 21, "half of each was not moved");
    let end = both.run(&["push", &from, &to, "--delete-source"])?;
    assert_eq!((end["files"].as_u64(), end["same"].as_u64()), (Some(20), Some(20)), "{end}");
    assert_eq!(both.server.messages("")?.len(), 1, "the one with nothing attached stays");
    for number in 0..20 {
        let at = both.at("to").join(format!("{} 2023-11-14 two", number + 1));
        assert!(
            fs::read(at.join("a.bin"))? == random(5_000, number) && fs::read(at.join("b.txt"))? == random(300, number)
        );
    }
    Ok(())
}

#[test]
fn where_one_message_cannot_be_removed_alone_none_is() -> Outcome {
    let both = Both::start(NO_UIDPLUS)?;
    both.put("", 1, &[mail("a", &[file("filename=a", b"a")])])?;
    let (from, to) = (both.server.url("INBOX/."), both.at("to").display().to_string());
    let output = both.command(&["push", &from, &to, "--delete-source"])?.output()?;
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    assert!(String::from_utf8(output.stdout)?.contains("UIDPLUS"));
    assert_eq!((both.server.messages("")?.len(), fs::read(both.at("to/1 2023-11-14 a/a"))?), (1, b"a".to_vec()));
    Ok(())
}

#[test]
fn a_server_that_takes_few_connections_is_not_asked_for_more() -> Outcome {
    let both = Both::start("mail_max_userip_connections = 2")?;
    let mails: Vec<_> = (0..60).map(|number| mail("x", &[file("filename=x", &random(50_000, number))])).collect();
    both.put("", 1, &mails)?;
    let end = both.pull("INBOX", &["--connections", "6"])?;
    assert_eq!(counts(&end)[..3], [Some(60), Some(0), Some(0)], "{end}");
    Ok(())
}
