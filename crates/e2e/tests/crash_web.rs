//! Power cuts, and a disk that is full, while people at the API share, make members, tokens, sessions and passkeys, use codes, and send files
//! in parts. What was acknowledged is there and works after the server is started again; what was not answered was done or not.
//!
//! Chains of power cuts are as in `crash_disk`.

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::disk::{MountedDisk, Template, mount, run_chains};
use holdfast_e2e::errands::{Desk, Errands};
use holdfast_e2e::knob::knob;
use holdfast_testkit::crashdisk::{Action, Config, Fault, OpKind};
use holdfast_testkit::rng::Prng;

/// Power cuts of a chain.
const LINKS: u64 = 10;
/// Changes of the disk after which the power goes: up to 2 to the power of a number in this range.
const CHANGES_LOG2: std::ops::Range<u64> = 3..11;
/// The same where the database is elsewhere: only packs change.
const PACK_CHANGES_LOG2: std::ops::Range<u64> = 2..7;
/// Share of the starts that are cut.
const CUT_STARTS: f64 = 0.15;
/// Changes that a start makes before it is cut, at most.
const START_CHANGES_MAX: u64 = 25;
/// Requests of each person before a cut, at most.
const STEPS_MAX: u64 = 500;
/// What is free on a disk that is going to be full.
const FREE_BYTES: u64 = 40 << 20;
/// How often all go on although it is.
const ROUNDS: u64 = 25;
/// Requests of each in between.
const STEPS: u64 = 6;

/// `HOLDFAST_WEB_SEEDS` sets how many cuts there are in all, `HOLDFAST_SEED` the first chain.
#[test]
fn nothing_people_did_at_the_pages_is_lost_when_the_power_is_cut() -> Outcome {
    let chains = knob("HOLDFAST_WEB_SEEDS", 40_u64).div_ceil(LINKS);
    let first = knob("HOLDFAST_SEED", 1_u64);
    let template = Template::make()?;
    let answers = run_chains(first..first + chains, |seed| run_chain(&template, seed))?;
    println!("{} power cuts, {answers} requests acknowledged before them, none lost", chains * LINKS);
    Ok(())
}

/// Runs a chain; returns the number of requests that were acknowledged in it.
fn run_chain(template: &Template, seed: u64) -> Outcome<u64> {
    let mut rng = Prng::new(seed);
    let config = if seed.is_multiple_of(2) { Config::default() } else { Config::ext4_like() };
    let (mut image, place) = (template.image(config), template.place.copy()?);
    let mut people: Option<(Desk, Errands)> = None;
    let mut answers = 0;
    for link in 0..=LINKS {
        let mounted = mount(image, &place)?;
        if people.is_some() && rng.chance(CUT_STARTS) {
            cut_start(&mounted, &mut rng)?;
            image = mounted.disk.power_cut(rng.next_u64());
            continue;
        }
        let mut server = mounted.options()?.start()?;
        let (desk, errands) = if let Some((desk, errands)) = people.take() {
            (desk.again(&server), errands)
        } else {
            Desk::prepare(server.options())?;
            let mut desk = Desk::open(&server)?;
            let errands = Errands::all(rng.next_u64(), &mut desk)?;
            (desk, errands)
        };
        let (desk, errands) = people.insert((desk, errands));
        let judged = errands.judge(desk).and_then(|()| expect_clean(server.options()));
        judged.map_err(|error| format!("link {link}: {error}\n{}", server.log()))?;
        let log2 = if place.database.is_some() { PACK_CHANGES_LOG2 } else { CHANGES_LOG2 };
        let changes = 1 << (log2.start + rng.below(log2.end - log2.start));
        mounted.disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(changes)));
        answers += errands.run(desk, STEPS_MAX).map_err(|error| format!("link {link}: {error}\n{}", server.log()))?.0;
        server.kill_9()?;
        image = mounted.disk.power_cut(rng.next_u64());
    }
    Ok(answers)
}

/// Starts the server while the power goes. Whether it comes up does not matter, nor whether it says something.
fn cut_start(mounted: &MountedDisk, rng: &mut Prng) -> Outcome {
    mounted.disk.inject(Fault::any_of(&OpKind::CHANGES, Action::CutPower).after(rng.below(START_CHANGES_MAX)));
    drop(mounted.options()?.start());
    Ok(())
}

/// The disk fills up with what is uploaded: what cannot be done is told with 507 or 503 and was not done by half, all that was acknowledged is there,
/// after a power cut too, and with room again everything goes on.
#[test]
fn a_full_disk_refuses_what_people_do_at_the_pages_and_breaks_none_of_it() -> Outcome {
    let template = Template::make()?;
    let mounted = template.mount()?;
    let mut server = mounted.options()?.start()?;
    Desk::prepare(server.options())?;
    let mut desk = Desk::open(&server)?;
    let mut errands = Errands::all(knob("HOLDFAST_SEED", 1), &mut desk)?;
    let free = mounted.disk.used_bytes() + FREE_BYTES;
    let mut refusals = Vec::new();
    for round in 0..ROUNDS {
        // First there is some room left; then none to the last byte, and not even the catalogue can grow.
        let capacity = if round < ROUNDS / 2 { free } else { mounted.disk.used_bytes() };
        mounted.disk.set_capacity(capacity);
        refusals.extend(errands.run(&desk, STEPS)?.1);
        // Whoever judges opens links, and that is written down.
        mounted.disk.set_capacity(10 * free);
        errands.judge(&desk).map_err(|error| format!("round {round}: {error}\n{}", server.log()))?;
    }
    println!("{} requests refused on a full disk", refusals.len());
    assert!(refusals.len() > 3 && refusals.iter().all(|status| matches!(status, 503 | 507)), "{refusals:?}");
    server.kill_9()?;
    let after = mount(mounted.disk.power_cut(1), &mounted.place)?;
    after.disk.set_capacity(10 * free);
    let server = after.options()?.start()?;
    let desk = desk.again(&server);
    errands.judge(&desk)?;
    let (answers, refusals) = errands.run(&desk, 4 * STEPS)?;
    assert!(refusals.is_empty() && answers >= 4 * STEPS, "{answers} answers, refused: {refusals:?}");
    errands.judge(&desk)?;
    expect_clean(server.options())
}
