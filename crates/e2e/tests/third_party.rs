//! The suites of other people's clients, each on a drive of its own, which proves itself afterwards.

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::engines::{Engines, Store};
use holdfast_e2e::others::{API, ARCHIVE, CADAVER, CURL, LITMUS, RCLONE, SMART, Suite, TUS};
use holdfast_e2e::rig::Rig;

fn run(suite: Suite) -> Outcome {
    let mut rig = Rig::new()?;
    suite.run(rig.server.address()).map_err(|error| format!("{error}\n{}", rig.server.log()))?;
    expect_clean(rig.server.options())?;
    rig.stop()?;
    expect_clean(rig.server.options())
}

/// A suite whose findings do not depend on engines.
fn run_on_default_engines(suite: Suite) -> Outcome {
    if Engines::of_environment()? != (Engines { postgres: false, store: Store::Fs }) {
        println!("left out: its drive is of the default engines");
        return Ok(());
    }
    run(suite)
}

#[test]
fn litmus_finds_no_fault() -> Outcome {
    run(LITMUS)
}

#[test]
fn a_person_with_cadaver_gets_along() -> Outcome {
    run(CADAVER)
}

#[test]
fn curl_gets_ranges_conditions_and_resumed_transfers() -> Outcome {
    run(CURL)
}

#[test]
fn rclone_copies_and_syncs_trees_both_ways() -> Outcome {
    run(RCLONE)
}

#[test]
fn smart_folders_show_take_and_lose_nothing_in_cadaver_and_rclone() -> Outcome {
    run(SMART)
}

/// What an archive looks like does not depend on engines.
#[test]
fn unzip_and_python_read_archives_of_many_and_large_files() -> Outcome {
    run_on_default_engines(ARCHIVE)
}

/// Uploads that go on through another node, on other engines, are in `cluster`.
#[test]
fn clients_of_tus_resume_their_uploads() -> Outcome {
    run_on_default_engines(TUS)
}

/// Its drive is of the default engines: what the API answers does not depend on them.
#[test]
fn the_api_answers_what_its_description_says_to_whatever_is_sent() -> Outcome {
    run_on_default_engines(API)
}
