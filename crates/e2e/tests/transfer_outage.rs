//! A transfer of each plane whose network is gone for longer than either end waits for an answer (`HOLDFAST_OUTAGE_SECONDS`): it goes on when that is back,
//! and little is sent again, either way. And one whose client is killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::far::{Far, as_root, expect_same, link};
use holdfast_e2e::knob::knob;
use holdfast_wan::Direction;

const MIB: usize = 1 << 20;
/// Client and server both take a minute of silence for the end of a connection.
const OUTAGE_S: u64 = 80;
/// How long after the network is back it may take until it is used: the longest pause between two attempts, a handshake, and a machine with much to do.
const NOTICED: Duration = Duration::from_secs(45);

/// A file on one side, and the words that move it to the other.
struct Way {
    far: Far,
    file: PathBuf,
    words: [String; 5],
    direction: Direction,
}

impl Way {
    fn of(command: &str, plane: &str, bytes: usize) -> Outcome<Self> {
        let far = Far::new(link(40, Duration::from_millis(15)))?;
        let push = command == "push";
        let file = if push { far.make("file", bytes)? } else { far.stock("file", bytes)? };
        let (from, to, direction) = if push {
            (file.display().to_string(), far.url(""), Direction::ToFar)
        } else {
            (far.url("file"), back(&far), Direction::ToNear)
        };
        let words = [command.to_owned(), from, to, "--plane".to_owned(), plane.to_owned()];
        Ok(Self { far, file, words, direction })
    }
}

/// Where it is pulled to.
fn back(far: &Far) -> String {
    far.rig.scratch().join("back").display().to_string()
}

/// What was moved is what it was, and the drive proves itself.
fn arrived(mut far: Far, file: &Path, command: &str) -> Outcome {
    if command == "push" {
        far.run(&["pull", &far.url("file"), &back(&far)])?;
    }
    expect_same(file, &far.rig.scratch().join("back/file"))?;
    far.rig.stop()?;
    expect_clean(far.rig.server.options())
}

/// Moves a file one way, and cuts the link when a third has arrived. So many thousandths of its bytes are for what the plane's packets cost, and one
/// block and as many as are given may come twice.
fn survives(command: &str, plane: &str, (overhead, blocks): (usize, usize)) -> Outcome {
    let bytes = 48 * MIB;
    let Way { far, file, words, direction } = Way::of(command, plane, bytes)?;
    let moving = far.start(&words)?;
    far.until_came(direction, 16 * MIB as u64)?;
    far.wan.cut(true);
    std::thread::sleep(Duration::from_secs(knob("HOLDFAST_OUTAGE_SECONDS", OUTAGE_S)));
    assert!(far.wan.forwarded(direction).blocked.packets > 0, "somebody tried meanwhile");
    far.wan.cut(false);
    let back = Instant::now();
    if let Err(error) = far.until_came(direction, MIB as u64) {
        return Err(format!("{command} by {plane}: {error}: {}", moving.last_words()?).into());
    }
    println!("{command} by {plane}: used again after {:?}", back.elapsed());
    assert!(back.elapsed() < NOTICED, "it is used again after {:?}", back.elapsed());
    let ended = moving.end()?;
    assert_eq!((&ended["files"], &ended["network"]["plane"]), (&1.into(), &plane.into()), "{ended}");
    let came = came(&far, direction);
    println!("{command} by {plane}: {came} bytes came of {bytes}");
    let way = far.wan.forwarded(direction);
    assert!(came < (bytes + bytes / 1_000 * overhead + MIB + blocks * MIB) as u64, "{came} of {bytes}: {way:?}");
    arrived(far, &file, command)
}

#[test]
fn a_push_by_tcp_goes_on_after_an_outage() -> Outcome {
    as_root("a_push_by_tcp_goes_on_after_an_outage", || survives("push", "tcp", (125, 4)))
}

#[test]
fn a_push_by_quic_goes_on_after_an_outage() -> Outcome {
    as_root("a_push_by_quic_goes_on_after_an_outage", || survives("push", "quic", (125, 2)))
}

#[test]
fn a_pull_by_tcp_goes_on_after_an_outage() -> Outcome {
    as_root("a_pull_by_tcp_goes_on_after_an_outage", || survives("pull", "tcp", (40, 2)))
}

#[test]
fn a_pull_by_quic_goes_on_after_an_outage() -> Outcome {
    as_root("a_pull_by_quic_goes_on_after_an_outage", || survives("pull", "quic", (80, 2)))
}

/// Kills the client so many times (`HOLDFAST_TRANSFER_FAR_KILLS`) while a file moves as fast as the link takes it, each time when so many bytes more have come. At most so
/// many blocks are sent again for a kill, beside what the plane's packets cost, which a file that is not disturbed shows.
fn killed(command: &str, plane: &str, blocks_max: usize) -> Outcome {
    let calm = 16 * MIB;
    let Way { far, words, direction, .. } = Way::of(command, plane, calm)?;
    far.run(&words)?;
    let packets = usize::try_from(came(&far, direction))?.saturating_sub(calm);
    let kills: usize = knob("HOLDFAST_TRANSFER_FAR_KILLS", 2);
    let bytes = (kills * 16 + 8) * MIB;
    let packets = packets * (bytes / MIB) / (calm / MIB);
    let Way { far, file, words, direction } = Way::of(command, plane, bytes)?;
    let mut killed = 0;
    for _ in 0..kills {
        let mut moving = far.start(&words)?;
        far.until_came(direction, 16 * MIB as u64)?;
        killed += usize::from(moving.kill_9()?);
    }
    far.run(&words)?;
    let again = usize::try_from(came(&far, direction))?.saturating_sub(bytes + packets);
    println!(
        "{command} by {plane}: {bytes} bytes in packets of {packets} more with {killed} kills: {} sent again a kill",
        again / killed.max(1)
    );
    assert!(again < killed * blocks_max * MIB + bytes / 100, "{again} bytes again, {killed} kills");
    arrived(far, &file, command)
}

fn came(far: &Far, direction: Direction) -> u64 {
    let way = far.wan.forwarded(direction);
    way.tcp.bytes + way.udp.bytes
}

#[test]
fn a_push_by_tcp_that_is_killed_sends_little_again() -> Outcome {
    as_root("a_push_by_tcp_that_is_killed_sends_little_again", || killed("push", "tcp", 8))
}

#[test]
fn a_push_by_quic_that_is_killed_sends_little_again() -> Outcome {
    as_root("a_push_by_quic_that_is_killed_sends_little_again", || killed("push", "quic", 2))
}

#[test]
fn a_pull_by_tcp_that_is_killed_sends_little_again() -> Outcome {
    as_root("a_pull_by_tcp_that_is_killed_sends_little_again", || killed("pull", "tcp", 32))
}

#[test]
fn a_pull_by_quic_that_is_killed_sends_little_again() -> Outcome {
    as_root("a_pull_by_quic_that_is_killed_sends_little_again", || killed("pull", "quic", 32))
}
