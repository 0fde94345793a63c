//! By which plane a transfer with a drive goes over a bad network: what is chosen, what is found out on the way, and what is remembered. Held against what came over the link, and not against its time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::far::{Far, as_root, expect_same, link};
use holdfast_wan::{Chance, Datagrams, Direction, Impairments, Loss};
use serde_json::Value;

const MIB: usize = 1 << 20;
const DELAY: Duration = Duration::from_millis(15);
/// What comes by the plane of QUIC on busy processors, too, well before a transfer tries the other for the first time, which may be faster there.
const BEFORE_A_TRIAL: u64 = 7 << 20;
/// What is remembered is too old then.
const HOUR: Duration = Duration::from_hours(1);

/// Plane and reason, and whether that was remembered.
fn network(end: &Value) -> (String, String, bool) {
    let of = |name: &str| end["network"][name].as_str().unwrap_or_default().to_owned();
    (of("plane"), of("why"), end["network"]["remembered"] == true)
}

fn is(plane: &str, why: &str, remembered: bool) -> (String, String, bool) {
    (plane.into(), why.into(), remembered)
}

/// Pulls what is in the space under this name, into a folder of its own; answers how that ended, and where it is.
fn pull(far: &Far, name: &str, into: &str, more: &[&str]) -> Outcome<(Value, PathBuf)> {
    let to = far.rig.scratch().join(into);
    let (url, place) = (far.url(name), shown(&to));
    let words = [&["pull", &url, &place], more].concat();
    Ok((far.run(&words)?, to.join(name)))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Ends the server, and has the drive prove itself.
fn end(mut far: Far) -> Outcome {
    far.rig.stop()?;
    expect_clean(far.rig.server.options())
}

/// Bytes of packets, for so much content: with headers of all layers, and what the first questions and the handshakes take.
fn on_the_line(content: usize) -> u64 {
    (content + content / 8 + MIB) as u64
}

/// The same of a transfer that goes on in another way: beginning anew would be [`BEFORE_A_TRIAL`] more.
fn no_more_than_was_under_way(content: usize) -> u64 {
    (content + content / 16) as u64 + BEFORE_A_TRIAL * 4 / 7
}

#[test]
fn where_much_is_lost_it_goes_by_quic_and_what_a_trial_finds_is_remembered_for_an_hour() -> Outcome {
    as_root("where_much_is_lost_it_goes_by_quic_and_what_a_trial_finds_is_remembered_for_an_hour", || {
        let lossy = Impairments { loss: Loss::Random(Chance::percent(16.0)), ..link(20, DELAY) };
        let far = Far::new(lossy)?;
        // Which TCP gives way to so much loss is not left to the machine: bbr does not, and may be the faster one.
        for host in [far.wan.near(), far.wan.far()] {
            host.set_congestion("cubic")?;
        }
        let small = far.stock("small", 3 * MIB)?;
        let (ended, back) = pull(&far, "small", "first", &[])?;
        assert_eq!(network(&ended), is("quic", "far", false), "{ended}");
        expect_same(&small, &back)?;
        let [to_near, _] = far.came();
        assert!(to_near.udp.bytes > 3 * MIB as u64 && to_near.tcp.bytes < MIB as u64, "{to_near:?}");
        assert_eq!(far.remembered()?, None, "nothing was found out");

        // Long enough for a trial, of a push. With so much lost, TCP may not even connect while that lasts: there are a few.
        let tried = || far.came()[1].tcp.bytes > 100_000;
        for trial in 0..3 {
            if tried() {
                break;
            }
            if trial > 0 {
                far.age_memory(HOUR)?;
            }
            // Another one each time: what the space has already is not sent.
            let large = far.make(&format!("large{}", ".".repeat(trial)), 64 * MIB)?;
            let ended = far.run(&["push", &shown(&large), &far.url("")])?;
            assert_eq!(network(&ended), is("quic", "compared", false), "{ended}");
        }
        assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("quic".into(), "compared".into())));
        let [_, to_far] = far.came();
        assert!(tried(), "some of it was tried by TCP: {to_far:?}");
        assert!(to_far.tcp.bytes < to_far.udp.bytes / 4, "and most went by QUIC: {to_far:?}");

        // The next one knows it, and the one after an hour does not.
        let (ended, back) = pull(&far, "small", "second", &[])?;
        assert_eq!(network(&ended), is("quic", "compared", true), "{ended}");
        expect_same(&small, &back)?;
        far.age_memory(HOUR)?;
        let (ended, _) = pull(&far, "small", "third", &[])?;
        assert_eq!(network(&ended), is("quic", "far", false), "{ended}");
        end(far)
    })
}

#[test]
fn a_near_server_is_left_over_tcp_when_much_is_lost_and_that_is_remembered() -> Outcome {
    as_root("a_near_server_is_left_over_tcp_when_much_is_lost_and_that_is_remembered", || {
        let far = Far::new(Impairments { loss: Loss::Random(Chance::percent(8.0)), ..link(20, Duration::ZERO) })?;
        for host in [far.wan.near(), far.wan.far()] {
            host.set_congestion("cubic")?;
        }
        let file = far.stock("file", 24 * MIB)?;
        for way in [Direction::ToNear, Direction::ToFar] {
            let mut found = None;
            // On busy processors, or if just these packets are lost, it is reached by QUIC from the beginning; or it takes so long that a trial says more.
            for round in 0..5 {
                if far.remembered()?.is_some() {
                    far.age_memory(HOUR)?;
                }
                let before = far.came()[way as usize];
                let ended = if way == Direction::ToNear {
                    let (ended, back) = pull(&far, "file", &format!("back{round}"), &[])?;
                    expect_same(&file, &back)?;
                    ended
                } else {
                    // Another one each time: what the space has already is not sent.
                    let name = format!("pushed{}", ".".repeat(round));
                    let made = far.make(&name, 24 * MIB)?;
                    let ended = far.run(&["push", &shown(&made), &far.url("")])?;
                    assert!(far.fetch(&name)? == std::fs::read(&made)?, "another content arrived");
                    ended
                };
                let now = far.came()[way as usize];
                let [tcp, udp] = [now.tcp.bytes - before.tcp.bytes, now.udp.bytes - before.udp.bytes];
                if tcp > 100_000 && !["far", "compared"].contains(&&*network(&ended).1) {
                    found = Some((ended, tcp, udp));
                    break;
                }
            }
            let (ended, tcp, udp) = found.ok_or("each time it looked far, or a trial was made")?;
            assert_eq!(network(&ended), is("quic", "lossy", false), "{ended}");
            // On busy processors it takes some seconds to look and to connect, in which TCP moves some, and what was asked of it comes twice in part.
            assert!(tcp < udp, "{tcp} by TCP, {udp} by QUIC");
            assert!(tcp + udp < on_the_line(32 * MIB), "{tcp} by TCP, {udp} by QUIC");
            assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("quic".into(), "lossy".into())));
        }
        let small = far.stock("small", 2 * MIB)?;
        let (ended, back) = pull(&far, "small", "known", &[])?;
        assert_eq!(network(&ended), is("quic", "lossy", true), "{ended}");
        expect_same(&small, &back)?;
        end(far)
    })
}

#[test]
fn where_datagrams_are_dropped_it_goes_by_tcp_soon_and_by_quic_an_hour_after_they_pass_again() -> Outcome {
    as_root("where_datagrams_are_dropped_it_goes_by_tcp_soon_and_by_quic_an_hour_after_they_pass_again", || {
        let far = Far::new(link(100, DELAY))?;
        let small = far.stock("small", 2 * MIB)?;
        let longer = far.stock("longer", 13 * MIB)?;
        far.wan.treat(Datagrams::Drop);
        let began = Instant::now();
        let (ended, back) = pull(&far, "small", "first", &[])?;
        let took = began.elapsed();
        assert_eq!(network(&ended), is("tcp", "blocked", false), "{ended}");
        expect_same(&small, &back)?;
        assert!(took < Duration::from_secs(8), "it need not wait for the whole time that QUIC has: {took:?}");
        let [to_near, to_far] = far.came();
        assert!((to_near.udp.packets, to_far.udp.packets) == (0, 0) && to_far.blocked.packets > 0, "{to_far:?}");
        assert_eq!(far.remembered()?, None, "QUIC did not have its time");

        // While it goes by TCP, QUIC has its time, and then it is known.
        let (ended, back) = pull(&far, "longer", "second", &["--limit-rate", "1M"])?;
        assert_eq!(network(&ended), is("tcp", "blocked", false), "{ended}");
        expect_same(&longer, &back)?;
        assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("tcp".into(), "blocked".into())));

        // It is better now, and nobody looks before the hour is over.
        far.wan.treat(Datagrams::Pass);
        let before = far.came()[1].udp.packets;
        let (ended, _) = pull(&far, "small", "third", &[])?;
        assert_eq!(network(&ended), is("tcp", "blocked", true), "{ended}");
        assert_eq!(far.came()[1].udp.packets, before, "nothing was tried");
        far.age_memory(HOUR)?;
        let (ended, back) = pull(&far, "small", "fourth", &[])?;
        assert_eq!(network(&ended), is("quic", "far", false), "{ended}");
        expect_same(&small, &back)?;
        end(far)
    })
}

#[test]
fn where_datagrams_are_refused_it_goes_by_tcp_at_once_and_that_is_remembered() -> Outcome {
    as_root("where_datagrams_are_refused_it_goes_by_tcp_at_once_and_that_is_remembered", || {
        // Nobody has the port, and the kernel says so.
        let far = Far::with(link(100, DELAY), |options| options.environment("HOLDFAST_QUIC", "false"))?;
        let small = far.stock("small", 2 * MIB)?;
        for (into, remembered) in [("first", false), ("second", true)] {
            let (ended, back) = pull(&far, "small", into, &[])?;
            assert_eq!(network(&ended), is("tcp", "blocked", remembered), "{ended}");
            expect_same(&small, &back)?;
            assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("tcp".into(), "blocked".into())));
        }
        let made = far.make("made", 3 * MIB)?;
        let ended = far.run(&["push", &shown(&made), &far.url("")])?;
        assert_eq!(network(&ended), is("tcp", "blocked", true), "{ended}");
        end(far)
    })
}

#[test]
fn a_pull_goes_on_by_tcp_when_datagrams_no_longer_pass() -> Outcome {
    as_root("a_pull_goes_on_by_tcp_when_datagrams_no_longer_pass", || {
        let far = Far::new(link(40, DELAY))?;
        let bytes = 64 * MIB;
        let file = far.stock("file", bytes)?;
        let to = far.rig.scratch().join("back");
        let pull = far.start(&["pull", &far.url("file"), &shown(&to)])?;
        far.until_came(Direction::ToNear, BEFORE_A_TRIAL)?;
        far.wan.treat(Datagrams::Drop);
        let ended = pull.end()?;
        assert_eq!(network(&ended), is("tcp", "blocked", false), "{ended}");
        expect_same(&file, &to.join("file"))?;
        assert_eq!(ended["moved_bytes"], bytes, "{ended}");
        let [to_near, _] = far.came();
        assert!(to_near.tcp.bytes > 20 * MIB as u64, "{to_near:?}");
        // Of blocks that were on their way, what had come is kept; what was asked for while it was looked for another way comes twice.
        let came = to_near.tcp.bytes + to_near.udp.bytes;
        assert!(came < no_more_than_was_under_way(bytes), "{came} of {bytes}: {to_near:?}");
        assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("tcp".into(), "blocked".into())));
        end(far)
    })
}

#[test]
fn a_push_goes_on_by_tcp_when_datagrams_no_longer_pass() -> Outcome {
    as_root("a_push_goes_on_by_tcp_when_datagrams_no_longer_pass", || {
        let far = Far::new(link(40, DELAY))?;
        let bytes = 48 * MIB;
        let file = far.make("file", bytes)?;
        let push = far.start(&["push", &shown(&file), &far.url("")])?;
        far.until_came(Direction::ToFar, BEFORE_A_TRIAL)?;
        far.wan.treat(Datagrams::Drop);
        let ended = push.end()?;
        assert_eq!(network(&ended), is("tcp", "blocked", false), "{ended}");
        let [_, to_far] = far.came();
        assert!(to_far.tcp.bytes > 20 * MIB as u64, "{to_far:?}");
        // What had not become durable, and what was in the windows of the connection.
        let came = to_far.tcp.bytes + to_far.udp.bytes;
        assert!(came < no_more_than_was_under_way(bytes), "{came} of {bytes}: {to_far:?}");
        far.wan.treat(Datagrams::Pass);
        let (_, back) = pull(&far, "file", "back", &["--plane", "tcp"])?;
        expect_same(&file, &back)?;
        end(far)
    })
}

/// Begins a transfer by TCP where much is lost, with datagrams dropped until QUIC has had its time; answers how it ended.
fn begin_by_tcp(far: &Far, way: Direction, words: &[&str]) -> Outcome<Value> {
    for host in [far.wan.near(), far.wan.far()] {
        host.set_congestion("cubic")?;
    }
    far.wan.treat(Datagrams::Drop);
    let moving = far.start(words)?;
    far.until_came(way, 300_000)?;
    std::thread::sleep(Duration::from_secs(11));
    far.wan.treat(Datagrams::Pass);
    moving.end()
}

#[test]
fn a_push_that_crawls_by_tcp_goes_on_by_quic_when_datagrams_pass_again() -> Outcome {
    as_root("a_push_that_crawls_by_tcp_goes_on_by_quic_when_datagrams_pass_again", || {
        let far = Far::new(Impairments { loss: Loss::Random(Chance::percent(16.0)), ..link(20, DELAY) })?;
        let file = far.make("file", 48 * MIB)?;
        let ended = begin_by_tcp(&far, Direction::ToFar, &["push", &shown(&file), &far.url("")])?;
        assert_eq!(network(&ended), is("quic", "faster", false), "{ended}");
        assert!(far.fetch("file")? == std::fs::read(&file)?, "another content arrived");
        end(far)
    })
}

#[test]
fn a_pull_that_crawls_by_tcp_goes_on_by_quic_when_datagrams_pass_again() -> Outcome {
    as_root("a_pull_that_crawls_by_tcp_goes_on_by_quic_when_datagrams_pass_again", || {
        let far = Far::new(Impairments { loss: Loss::Random(Chance::percent(16.0)), ..link(20, DELAY) })?;
        let (file, to) = (far.stock("file", 48 * MIB)?, far.rig.scratch().join("back"));
        let ended = begin_by_tcp(&far, Direction::ToNear, &["pull", &far.url("file"), &shown(&to)])?;
        assert_eq!(network(&ended), is("quic", "faster", false), "{ended}");
        expect_same(&file, &to.join("file"))?;
        end(far)
    })
}

/// A link that slows down datagrams alone.
fn slowing() -> Outcome<Far> {
    let far = Far::new(link(100, DELAY))?;
    far.wan.treat(Datagrams::Police(400_000));
    Ok(far)
}

#[test]
fn a_pull_finds_out_that_datagrams_alone_are_slow() -> Outcome {
    as_root("a_pull_finds_out_that_datagrams_alone_are_slow", || {
        let far = slowing()?;
        let file = far.stock("file", 64 * MIB)?;
        let (ended, back) = pull(&far, "file", "back", &[])?;
        assert_eq!(network(&ended), is("tcp", "faster", false), "{ended}");
        expect_same(&file, &back)?;
        let [to_near, _] = far.came();
        assert!(to_near.tcp.bytes > to_near.udp.bytes, "{to_near:?}");
        assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("tcp".into(), "faster".into())));
        let again = far.stock("again", 2 * MIB)?;
        let (ended, back) = pull(&far, "again", "back", &[])?;
        assert_eq!(network(&ended), is("tcp", "faster", true), "{ended}");
        expect_same(&again, &back)?;
        end(far)
    })
}

#[test]
fn a_push_finds_out_that_datagrams_alone_are_slow_and_sends_nothing_twice_for_that() -> Outcome {
    as_root("a_push_finds_out_that_datagrams_alone_are_slow_and_sends_nothing_twice_for_that", || {
        let far = slowing()?;
        let bytes = 64 * MIB;
        let file = far.make("file", bytes)?;
        let ended = far.run(&["push", &shown(&file), &far.url("")])?;
        assert_eq!(network(&ended), is("tcp", "faster", false), "{ended}");
        assert_eq!(ended["retries"], 0, "{ended}");
        let [_, to_far] = far.came();
        assert!(to_far.tcp.bytes > to_far.udp.bytes, "{to_far:?}");
        let came = to_far.tcp.bytes + to_far.udp.bytes;
        assert!(came < on_the_line(bytes), "{came} of {bytes}: {to_far:?}");
        let (_, back) = pull(&far, "file", "back", &["--plane", "tcp"])?;
        expect_same(&file, &back)?;

        // What is remembered wrongly is found out in a minute.
        far.misremember("quic", "compared")?;
        let second = far.make("second", 2 * bytes)?;
        let ended = far.run(&["push", &shown(&second), &far.url("")])?;
        assert_eq!(network(&ended), is("tcp", "faster", false), "{ended}");
        assert_eq!(ended["retries"], 0, "{ended}");
        assert_eq!(far.remembered()?.map(|[plane, why, _]| (plane, why)), Some(("tcp".into(), "faster".into())));
        end(far)
    })
}

/// Moves a file by this plane, there and back, with another address on the way each time.
fn moves(plane: &str) -> Outcome {
    // What the server keeps for a connection that is gone goes to the one in its place at once, and not when it is given up: that takes longer than a transfer is waited for.
    let far = Far::with(link(40, DELAY), |options| options.environment("HOLDFAST_LIMITS__STALL_TIMEOUT_S", "3600"))?;
    let bytes = 24 * MIB;
    let file = far.make("file", bytes)?;
    let push = far.start(&["push", &shown(&file), &far.url(""), "--plane", plane])?;
    far.until_came(Direction::ToFar, 6 * MIB as u64)?;
    far.wan.near().move_to([10, 97, 0, 3].into())?;
    let ended = push.end()?;
    assert_eq!((network(&ended).0.as_str(), &ended["files"]), (plane, &1.into()), "{ended}");
    let [_, to_far] = far.came();
    let came = to_far.tcp.bytes + to_far.udp.bytes;
    assert!(came < on_the_line(bytes + 6 * MIB), "{came} of {bytes}: {to_far:?}");

    let to = far.rig.scratch().join("back");
    let before = far.came()[0];
    let pull = far.start(&["pull", &far.url("file"), &shown(&to), "--plane", plane])?;
    far.until_came(Direction::ToNear, 6 * MIB as u64)?;
    far.wan.near().move_to([10, 97, 0, 4].into())?;
    let ended = pull.end()?;
    assert_eq!((network(&ended).0.as_str(), &ended["moved_bytes"]), (plane, &bytes.into()), "{ended}");
    expect_same(&file, &to.join("file"))?;
    let [now, _] = far.came();
    let came = now.tcp.bytes + now.udp.bytes - before.tcp.bytes - before.udp.bytes;
    // By TCP the blocks that were on their way, which is all that had come of this file; a connection of QUIC moves with its end.
    let again = if plane == "tcp" { 12 * MIB } else { MIB };
    assert!(came < on_the_line(bytes + again), "{came} of {bytes}: {now:?}");
    end(far)
}

#[test]
fn by_tcp_a_transfer_goes_on_when_the_address_changes() -> Outcome {
    as_root("by_tcp_a_transfer_goes_on_when_the_address_changes", || moves("tcp"))
}

#[test]
fn by_quic_a_transfer_goes_on_when_the_address_changes() -> Outcome {
    as_root("by_quic_a_transfer_goes_on_when_the_address_changes", || moves("quic"))
}
