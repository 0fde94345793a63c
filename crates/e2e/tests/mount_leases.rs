//! Close-to-open between mounts, and with the other faces: whoever opens a file after its writer was answered finds what was written, and nobody waits long for a mount that
//! says nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::engines::Engines;
use holdfast_e2e::knob::knob;
use holdfast_e2e::mounted::Mount;
use holdfast_e2e::networked::Net;
use holdfast_e2e::relay::slow;
use holdfast_e2e::rig::HOME;
use holdfast_testkit::http::{Client, Response};

/// After so long without changes the kernel is told what it may believe for long.
const QUIET: Duration = Duration::from_millis(2_300);
/// Longest that a change waits for a mount that says nothing, and what a busy machine adds.
const WAITS_MAX: Duration = Duration::from_millis(4_100 + 1_500);
/// Until when a mount is told of what others do, for which nobody waits.
const TOLD_MAX: Duration = Duration::from_secs(20);

/// How a file is given another content.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// It is written over.
    Over,
    /// Another file takes its name.
    Replaced,
    /// It gets another name, and another file its own.
    Rotated,
    /// It is removed, and another file is made.
    Anew,
    /// It is moved away with its folder, and another folder with another file takes that one's place.
    WithFolder,
}

const WAYS: [Way; 5] = [Way::Over, Way::Replaced, Way::Rotated, Way::Anew, Way::WithFolder];

/// By what it is changed.
enum Writer<'w> {
    Mount(&'w Path),
    Dav(Client),
}

impl Writer<'_> {
    fn done(answer: &Response) -> Outcome {
        if answer.is_success() { Ok(()) } else { Err(answer.text().into()) }
    }

    fn write(&mut self, name: &str, content: &[u8]) -> Outcome {
        match self {
            Self::Mount(at) => Ok(fs::write(at.join(name), content)?),
            Self::Dav(client) => Self::done(&client.put(&format!("{HOME}/{name}"), content)?),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Outcome {
        match self {
            Self::Mount(at) => Ok(fs::rename(at.join(from), at.join(to))?),
            Self::Dav(client) => {
                Self::done(&client.rename(&format!("{HOME}/{from}"), &format!("{HOME}/{to}"), true)?)
            }
        }
    }

    fn remove(&mut self, name: &str) -> Outcome {
        match self {
            Self::Mount(at) => Ok(fs::remove_file(at.join(name))?),
            Self::Dav(client) => Self::done(&client.delete(&format!("{HOME}/{name}"))?),
        }
    }

    fn make_folder(&mut self, name: &str) -> Outcome {
        match self {
            Self::Mount(at) => Ok(fs::create_dir(at.join(name))?),
            Self::Dav(client) => Self::done(&client.mkcol(&format!("{HOME}/{name}"))?),
        }
    }

    /// Gives `folder/file` this content, as it was not there in the first round.
    fn change(&mut self, way: Way, (folder, round): (&str, usize), content: &[u8]) -> Outcome {
        let name = format!("{folder}/file");
        match way {
            Way::Over => self.write(&name, content),
            Way::Replaced => {
                self.write(&format!("{folder}/new"), content)?;
                self.rename(&format!("{folder}/new"), &name)
            }
            Way::Rotated => {
                if round > 0 {
                    self.rename(&name, &format!("{folder}/file.1"))?;
                }
                self.write(&name, content)
            }
            Way::Anew => {
                if round > 0 {
                    self.remove(&name)?;
                }
                self.write(&name, content)
            }
            Way::WithFolder => {
                if round > 0 {
                    self.rename(folder, &format!("{folder}.{round}"))?;
                    self.make_folder(folder)?;
                }
                self.write(&name, content)
            }
        }
    }
}

/// Changes a file in each way, and opens it elsewhere at once.
fn open_at_once(writers: &mut [(&str, Writer<'_>)], (reader, at): (&str, &Path), rounds: usize) -> Outcome {
    for (by, writer) in writers {
        let mut longest = Duration::ZERO;
        for way in WAYS {
            let folder = format!("{by}-{reader}-{way:?}");
            writer.make_folder(&folder)?;
            let file = at.join(&folder).join("file");
            for round in 0..rounds {
                // It was looked for, and is believed; in this round for long.
                if round == 3 {
                    std::thread::sleep(QUIET);
                }
                let before = fs::read(&file).ok();
                assert_eq!(before.is_some(), round > 0, "{by} {way:?} {reader} {round}");
                // Its name came with a list.
                if round % 2 == 1 {
                    let listed: Vec<_> = fs::read_dir(at.join(&folder))?.map(|entry| entry?.metadata()).collect();
                    assert!(listed.into_iter().all(|metadata| metadata.is_ok()), "{by} {way:?} {reader} {round}");
                }
                let content = format!("{round} ").repeat(1 + round * 7_919 % 5_000);
                let began = Instant::now();
                writer.change(way, (&folder, round), content.as_bytes())?;
                longest = longest.max(began.elapsed());
                let found = fs::read(&file).map_err(|error| format!("{by} {way:?} {reader} {round}: {error}"))?;
                let of = String::from_utf8_lossy(&found[..found.len().min(8)]).into_owned();
                assert!(found == content.as_bytes(), "{by} {way:?} {reader} {round}: {} bytes of {of:?}", found.len());
            }
        }
        println!("{by} to {reader}: {} changes, the longest took {longest:?}", rounds * WAYS.len());
    }
    Ok(())
}

/// Makes a file, which gets another name elsewhere at once, and another file its own.
fn make_and_rotate(writer: &mut Writer<'_>, (reader, at): (&str, &Path), rounds: usize) -> Outcome {
    for round in 0..rounds {
        let name = format!("made-{reader}-{round}");
        fs::write(at.join(&name), b"mine")?;
        writer.rename(&name, &format!("{name}.1"))?;
        writer.write(&name, b"another")?;
        assert_eq!(String::from_utf8_lossy(&fs::read(at.join(&name))?), "another", "{reader} {round}");
    }
    Ok(())
}

/// Makes a folder, into which a file is put elsewhere, and opens that at once. Where changes wait for nobody (PostgreSQL), who answers first believes that a
/// name is free until he is told otherwise (docs/design/leases.md, 12): there it is opened soon.
fn make_and_be_given(writer: &mut Writer<'_>, (reader, at): (&str, &Path), rounds: usize) -> Outcome {
    let at_once = !Engines::of_environment()?.postgres;
    let mut took = Vec::new();
    for round in 0..rounds {
        let folder = format!("given-{reader}-{round}");
        fs::create_dir(at.join(&folder))?;
        fs::write(at.join(&folder).join("mine"), b"mine")?;
        // Now others see it.
        fs::File::open(at.join(&folder))?.sync_all()?;
        let theirs = at.join(&folder).join("theirs");
        assert!(!theirs.try_exists()?, "{reader} {round}");
        writer.write(&format!("{folder}/theirs"), b"theirs")?;
        let written = Instant::now();
        while !at_once && !theirs.try_exists()? && written.elapsed() < TOLD_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        took.push(written.elapsed());
        let found = fs::read(&theirs).map_err(|error| format!("{reader} {round}: {error}"))?;
        assert_eq!(String::from_utf8_lossy(&found), "theirs", "{reader} {round}");
    }
    took.sort_unstable();
    println!("{reader} was told after {took:?}");
    assert!(took[rounds / 2] < Duration::from_millis(250), "{reader}: {took:?}");
    Ok(())
}

fn rounds() -> usize {
    knob("HOLDFAST_LEASE_ROUNDS", 24)
}

#[test]
fn who_opens_a_file_after_its_writer_was_answered_finds_what_was_written() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (net, within) = Net::with_own_mount(folder.path())?;
    let (one, two) = (net.mount("one", &["--write-behind=no"])?, net.mount("two", &[])?);
    let mut writers = [("mount", Writer::Mount(one.at())), ("dav", Writer::Dav(net.client()))];
    open_at_once(&mut writers, ("two", two.at()), rounds())?;
    open_at_once(&mut writers, ("within", &within), rounds().div_ceil(2))?;
    for (_, writer) in &mut writers {
        make_and_rotate(writer, ("within", &within), rounds())?;
    }
    make_and_rotate(&mut Writer::Dav(net.client()), ("one", one.at()), rounds())?;
    net.end([one, two])
}

/// A mount through a relay that takes its time.
fn far(net: &Net, name: &str, arguments: &[&str], late: Duration) -> Outcome<Mount> {
    let relay: SocketAddr = slow(net.address(), late)?;
    let at = net.rig.scratch().join(name);
    fs::create_dir(&at)?;
    Mount::begin(net.command_to(&format!("https://{relay}"), &at, arguments)?, &net.token, at)
}

#[test]
fn so_does_who_is_far_away() -> Outcome {
    let net = Net::new()?;
    let one = net.mount("one", &["--write-behind=no"])?;
    let mut writers = [("mount", Writer::Mount(one.at())), ("dav", Writer::Dav(net.client()))];
    let near = far(&net, "near", &[], Duration::from_millis(5))?;
    let far = far(&net, "far", &[], Duration::from_millis(100))?;
    open_at_once(&mut writers, ("near", near.at()), rounds().div_ceil(4))?;
    make_and_rotate(&mut Writer::Dav(net.client()), ("near", near.at()), rounds())?;
    open_at_once(&mut writers, ("far", far.at()), rounds().div_ceil(8))?;
    net.end([one, near, far])
}

#[test]
fn so_does_who_answers_first_and_made_the_folder() -> Outcome {
    let net = Net::new()?;
    let (one, two) = (net.mount("one", &["--write-behind=no"])?, net.mount_first("two", &[])?);
    let first = net.first("near");
    fs::create_dir_all(&first[2])?;
    let near = far(&net, "near", &first.each_ref().map(String::as_str), Duration::from_millis(5))?;
    make_and_be_given(&mut Writer::Dav(net.client()), ("two", two.at()), rounds())?;
    make_and_be_given(&mut Writer::Mount(one.at()), ("near", near.at()), rounds())?;
    net.end([one, two, near])
}

#[test]
fn a_mount_that_is_frozen_is_not_waited_for_long_and_finds_nothing_old_after_that() -> Outcome {
    let net = Net::new()?;
    let two = net.mount("two", &[])?;
    let mut client = net.client();
    let mut writer = Writer::Dav(net.client());
    writer.make_folder("d")?;
    for (round, seconds) in [1, 5, knob("HOLDFAST_LEASE_FROZEN_SECONDS", 8)].into_iter().enumerate() {
        let content = |what: &str| format!("{what} {round}");
        for name in ["d/a", "d/b"] {
            writer.write(name, content("before").as_bytes())?;
            assert_eq!(fs::read(two.at().join(name))?, content("before").as_bytes());
        }
        two.freeze()?;
        let froze = Instant::now();
        let mut took = Vec::new();
        for name in ["d/a", "d/b", "d/a"] {
            let began = Instant::now();
            Writer::done(&client.put(&format!("{HOME}/{name}"), content("after").as_bytes())?)?;
            took.push(began.elapsed());
        }
        std::thread::sleep(Duration::from_secs(seconds).saturating_sub(froze.elapsed()));
        two.go_on()?;
        for name in ["d/a", "d/b"] {
            assert_eq!(fs::read(two.at().join(name))?, content("after").as_bytes(), "frozen for {seconds} s");
        }
        println!("frozen: changes took {took:?}");
        assert!(took[0] < WAITS_MAX && took[1..].iter().all(|took| *took < Duration::from_secs(1)), "{took:?}");
    }
    net.end([two])
}

#[test]
fn a_mount_that_has_ended_is_not_waited_for() -> Outcome {
    let net = Net::new()?;
    let mut writer = Writer::Dav(net.client());
    let mut change = |reader: &Path, content: &str| -> Outcome<()> {
        writer.write("file", content.as_bytes())?;
        assert_eq!(fs::read(reader.join("file"))?, content.as_bytes());
        Ok(())
    };
    let (one, two) = (net.mount("one", &[])?, net.mount("two", &[])?);
    change(one.at(), "both")?;
    change(two.at(), "there")?;
    let took = |change: &mut dyn FnMut() -> Outcome| -> Outcome<Duration> {
        let began = Instant::now();
        change()?;
        Ok(began.elapsed())
    };
    one.unmount()?;
    let after_end = took(&mut || change(two.at(), "one is gone"))?;
    assert!(after_end < Duration::from_secs(1), "{after_end:?}");
    two.kill_9()?;
    let mut client = net.client();
    let after_kill = took(&mut || Writer::done(&client.put(&format!("{HOME}/file"), "both are gone")?))?;
    assert!(after_kill < WAITS_MAX, "{after_kill:?}");
    let later = took(&mut || Writer::done(&client.put(&format!("{HOME}/file"), "nobody is there")?))?;
    assert!(later < Duration::from_secs(1), "{later:?}");
    println!("after an end {after_end:?}, after a kill {after_kill:?}, then {later:?}");
    net.end([])
}
