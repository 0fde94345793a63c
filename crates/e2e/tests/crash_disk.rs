//! Power cuts on a disk that forgets, tears and reorders what was not synced: the real program and its real database on it; on PostgreSQL
//! its packs, and the database elsewhere. (Not on an object store, whose disks are its own: what it has answered it has, and the power cut
//! of a node is what `kill` does.)
//!
//! A *chain* begins with a drive on such a disk. Each of its links mounts what a power cut left (drawn by a seed), starts the server,
//! judges every worker's folder and runs `check --read-data`; then the workers go on until the power is cut at a random
//! change of the disk. Some cuts come while the server starts, so recovery is cut too. Half of the chains use the strictest reading
//! of POSIX, half what ext4 promises. A link is a seed: the figure that is printed.

use holdfast_e2e::Outcome;
use holdfast_e2e::burst::{Crew, Progress};
use holdfast_e2e::care::{empty_trash, expect_clean, reclaim};
use holdfast_e2e::disk::{MountedDisk, Template, mount, run_chains};
use holdfast_e2e::engines::Place;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME};
use holdfast_testkit::crashdisk::{Action, Config, Fault, Image, OpKind};
use holdfast_testkit::http::Client;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::TestServer;
use rustix::process::Signal;

/// Links of a chain: enough that packs fill, are left open and are sealed by recovery many times; the disk stays small.
const LINKS: u64 = 25;
/// Changes of the disk after which the power goes: up to 2 to the power of a number in this range. Ten changes are about a request; a
/// thousand are enough for checkpoints of the database and for staged uploads.
const CHANGES_LOG2: std::ops::Range<u64> = 3..11;
/// The same where the database is elsewhere: only packs change, and tiny files, folders and names change nothing.
const PACK_CHANGES_LOG2: std::ops::Range<u64> = 2..7;
/// Share of the starts that are cut.
const CUT_STARTS: f64 = 0.15;
/// Changes that a start makes before it is cut, at most.
const START_CHANGES_MAX: u64 = 25;
/// The largest file of the writer of large files: more blocks than one commit takes would need 17 MiB; that is for
/// few chains, since every image holds it.
const LARGE_BYTES: u64 = 6 << 20;
/// The same in one chain of four: a staged upload.
const STAGED_BYTES: u64 = 20 << 20;

/// `HOLDFAST_SEEDS` sets how many links there are in all, `HOLDFAST_SEED` the first chain.
#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() -> Outcome {
    let chains = knob("HOLDFAST_SEEDS", 400_u64).div_ceil(LINKS);
    let first = knob("HOLDFAST_SEED", 1_u64);
    let template = Template::make()?;
    let answers = run_chains(first..first + chains, |seed| run_chain(&template, seed))?;
    println!("{} power cuts, {answers} requests acknowledged before them, none lost", chains * LINKS);
    Ok(())
}

/// The judges have teeth: a disk that lost what it had synced is found out.
#[test]
fn a_disk_that_lost_acknowledged_work_is_found_out() -> Outcome {
    let template = Template::make()?;
    let mounted = template.mount()?;
    let mut server = mounted.options()?.start()?;
    let mut crew = Crew::new(1, 3, HOME, LARGE_BYTES);
    let client = template.client(&server);
    crew.work(&client, |progress| progress.answers() > 30, |_| Ok(()))?;
    let before = mounted.disk.snapshot();
    crew.work(&client, |progress| progress.answers() > 30, |_| Ok(()))?;
    server.kill_9()?;

    let whole = mount(mounted.disk.power_cut(1), &mounted.place)?;
    let server = whole.options()?.start()?;
    crew.judge(&template.client(&server))?;
    drop(server);
    let old = mount(before.crash(1), &mounted.place)?;
    let server = old.options()?.start()?;
    assert!(crew.judge(&template.client(&server)).is_err());
    Ok(())
}

/// A clean stop copies the catalogue's log into the file and takes the log away. Neither the cut of its length nor its removal is synced,
/// so a power cut soon after may leave any part of it: one that still reads as a log, but an older one, would undo what was acknowledged.
#[test]
fn nothing_is_lost_when_the_power_is_cut_after_a_clean_stop() -> Outcome {
    let template = Template::make()?;
    let mounted = template.mount()?;
    let mut server = mounted.options()?.start()?;
    let mut crew = Crew::new(1, 3, HOME, LARGE_BYTES);
    crew.work(&template.client(&server), |progress| progress.answers() > 60, |_| Ok(()))?;
    stop(&mut server)?;
    let stopped = mounted.disk.snapshot();
    for seed in 0..knob("HOLDFAST_STOP_SEEDS", 40_u64) {
        let after = mount(stopped.crash(seed), &mounted.place.copy()?)?;
        let server = after.options()?.start()?;
        let judged = crew.judge(&template.client(&server)).and_then(|()| expect_clean(server.options()));
        judged.map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

/// Runs a chain; returns the number of requests that were acknowledged in it.
fn run_chain(template: &Template, seed: u64) -> Outcome<u64> {
    let mut rng = Prng::new(seed);
    let config = if seed.is_multiple_of(2) { Config::default() } else { Config::ext4_like() };
    let large_bytes = if seed.is_multiple_of(4) { STAGED_BYTES } else { LARGE_BYTES };
    let mut crew = Crew::new(rng.next_u64(), 3, HOME, large_bytes);
    let (mut image, place) = (template.image(config), template.place.copy()?);
    let mut answers = 0;
    for link in 0..LINKS {
        let named = |error| format!("link {link}: {error}");
        let mounted = mount(image, &place)?;
        let disk = &mounted.disk;
        if rng.chance(CUT_STARTS) {
            cut_start(&mounted, &mut rng)?;
            image = disk.power_cut(rng.next_u64());
            continue;
        }
        let mut server = mounted.options()?.start()?;
        let client = template.client(&server);
        let judged = crew.judge(&client).and_then(|()| expect_clean(server.options()));
        judged.inspect_err(|_| keep(&mounted, seed)).map_err(named)?;
        let log2 = if place.database.is_some() { PACK_CHANGES_LOG2 } else { CHANGES_LOG2 };
        let changes = 1 << (log2.start + rng.below(log2.end - log2.start));
        disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(changes)));
        let beside = Beside::draw(&mut rng);
        let enough = |_: &Progress| disk.is_powered_off();
        answers +=
            crew.work(&client, enough, |progress| beside.act(progress, &server, client.clone())).map_err(named)?;
        server.kill_9()?;
        // A server that was asked to stop may have ended before the power went.
        image = disk.power_cut(rng.next_u64());
    }
    judge_the_end(template, image, &place, &mut crew)?;
    Ok(answers)
}

/// Copies what is on the disk to the folder that `HOLDFAST_KEEP` names, for whoever has to find out what went wrong.
fn keep(mounted: &MountedDisk, seed: u64) {
    if let Some(folder) = std::env::var_os("HOLDFAST_KEEP") {
        let to = std::path::Path::new(&folder).join(format!("chain{seed}"));
        let copied = std::process::Command::new("cp").arg("-r").arg(mounted.disk.path()).arg(&to).status();
        println!("kept in {}: {copied:?}", to.display());
    }
}

/// What happens beside the workers, so that the power is also cut under it.
enum Beside {
    /// Nothing.
    Nothing,
    /// After so many answers the trash is emptied and a reclaim is asked for.
    Reclaim(u64),
    /// After so many answers the server is asked to stop, which closes the open pack.
    Stop(u64),
}

impl Beside {
    fn draw(rng: &mut Prng) -> Self {
        match rng.below(4) {
            0 => Self::Reclaim(rng.below(20)),
            1 => Self::Stop(rng.below(20)),
            _ => Self::Nothing,
        }
    }

    fn act(&self, progress: &Progress, server: &TestServer, mut client: Client) -> Outcome {
        match self {
            Self::Nothing => {}
            Self::Reclaim(answers) => {
                progress.wait_for(*answers);
                // Whether it answers depends on the power.
                client.delete(&format!("/api/v1/spaces/{NAME}/trash")).ok();
                server.signal(Signal::USR1)?;
            }
            Self::Stop(answers) => {
                progress.wait_for(*answers);
                server.signal(Signal::TERM)?;
            }
        }
        Ok(())
    }
}

/// Starts the server while the power goes. Whether it comes up does not matter, nor whether it says something.
fn cut_start(mounted: &MountedDisk, rng: &mut Prng) -> Outcome {
    mounted.disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(START_CHANGES_MAX)));
    drop(mounted.options()?.start());
    Ok(())
}

/// What the last cut left is judged too, and then everything is deleted: the store must be empty.
fn judge_the_end(template: &Template, image: Image, place: &Place, crew: &mut Crew) -> Outcome {
    let mounted = mount(image, place)?;
    let mut server = mounted.options()?.start()?;
    let mut client = template.client(&server);
    crew.judge(&client)?;
    for member in client.list(HOME, "1")?.iter().filter(|member| member.path != HOME) {
        client.delete(&member.path)?.expect_status(204)?;
    }
    stop(&mut server)?;
    empty_trash(server.options())?;
    reclaim(server.options())?;
    expect_clean(server.options())?;
    let packs = place.objects(server.options().data())?.names()?;
    if packs.is_empty() { Ok(()) } else { Err(format!("an empty drive keeps {packs:?}").into()) }
}

fn stop(server: &mut TestServer) -> Outcome {
    let status = server.terminate()?;
    if status.success() { Ok(()) } else { Err(format!("it stopped with {status}").into()) }
}
