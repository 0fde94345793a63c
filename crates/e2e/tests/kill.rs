//! `kill -9` at random moments under mixed writers.

use std::thread;
use std::time::Duration;

use holdfast_e2e::Outcome;
use holdfast_e2e::burst::Crew;
use holdfast_e2e::care::{empty_trash, expect_clean, reclaim};
use holdfast_e2e::engines::Engines;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD, make_token};
use holdfast_testkit::rng::Prng;

/// Answers after which a kill comes, at most: some come while everybody begins, some in full work.
const ANSWERS_MAX: u64 = 120;
/// A kill then comes within this time: a few requests take so long, so it meets each at any point. The wait chooses a moment; nothing
/// depends on it.
const DELAY_MAX_US: u64 = 8_000;
/// Files of the writer of large files: more blocks than one commit takes, so that staged uploads are killed too.
const LARGE_BYTES: u64 = 24 << 20;

/// `HOLDFAST_KILLS` sets how often.
#[test]
fn nothing_acknowledged_is_lost_or_mixed_when_the_server_is_killed() -> Outcome {
    let kills = knob("HOLDFAST_KILLS", 100_u64);
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    let folder = tempfile::tempdir()?;
    let place = Engines::of_environment()?.place()?;
    let options = place.options(&folder.path().join("data"))?;
    options.add_account(NAME, PASSWORD)?;
    let token = make_token(&options)?;
    let mut crew = Crew::new(rng.next_u64(), 4, HOME, LARGE_BYTES);
    let mut answers = 0;
    for number in 0..kills {
        let mut server = options.clone().start()?;
        let client = server.client_of(NAME, &token);
        crew.judge(&client).map_err(|error| format!("after kill {number}: {error}"))?;
        expect_clean(&options).map_err(|error| format!("after kill {number}: {error}"))?;
        let after = rng.below(ANSWERS_MAX);
        let delay = Duration::from_micros(rng.below(DELAY_MAX_US));
        answers += crew.work(
            &client,
            |_| false,
            |progress| {
                progress.wait_for(after);
                thread::sleep(delay);
                Ok(server.kill_9()?)
            },
        )?;
    }
    println!("{kills} kills, {answers} requests acknowledged before them");

    let mut server = options.clone().start()?;
    let client = server.client_of(NAME, &token);
    crew.judge(&client)?;
    for member in client.clone().list(HOME, "1")?.iter().filter(|member| member.path != HOME) {
        client.clone().delete(&member.path)?.expect_status(204)?;
    }
    assert!(server.terminate()?.success());
    expect_clean(&options)?;
    empty_trash(&options)?;
    println!("reclaim: {}", reclaim(&options)?);
    expect_clean(&options)?;
    let packs = place.objects(options.data())?.names()?;
    assert!(packs.is_empty(), "an empty drive keeps {packs:?}");
    Ok(())
}
