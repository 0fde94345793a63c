//! Every write, sync, creation, rename and removal fails once, at each place of a script of requests; and a disk that fills up.
//!
//! What was answered with success must be there afterwards, also after a power cut (a failed sync drops what it could not write, as
//! Linux does); what was refused was done or not, never half; and the next request works.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use holdfast_e2e::Outcome;
use holdfast_e2e::burst::Crew;
use holdfast_e2e::care::{empty_trash, expect_clean, reclaim};
use holdfast_e2e::disk::{Template, mount};
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::HOME;
use holdfast_testkit::crashdisk::{Action, Fault, OpKind};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::Client;
use holdfast_testkit::server::TestServer;

/// Requests of the script: they meet every path of writing, and some hundred changes of the disk.
const REQUESTS: u64 = 30;
/// Files in it: some blocks.
const LARGE_BYTES: u64 = 3 << 20;
/// Writes are twenty times as many as syncs, and most are pages of one transaction.
const WRITES_PER_STEP: u64 = 8;
/// Faulty runs at once: one core each.
const THREADS: usize = 2;

/// Statuses that say that the server could not, and how often each was given.
type Refusals = BTreeMap<(i32, u16), u64>;

/// Statuses of what the server could not, and how many operations of the disk there were.
type Seen = (Vec<u16>, Vec<(OpKind, u64)>);

/// Runs the script with a fault, or with none.
fn run(template: &Template, fault: Option<Fault>) -> Outcome<Seen> {
    let mounted = template.mount()?;
    let mut server = mounted.options()?.start()?;
    let mut client = template.client(&server);
    let mut crew = Crew::new(1, 2, HOME, LARGE_BYTES);
    let before = OpKind::CHANGES.map(|kind| mounted.disk.counts().of(kind));
    let errno = match fault.as_ref().map(|fault| fault.action) {
        Some(Action::Fail(errno)) => errno,
        _ => 0,
    };
    let armed = fault.map(|fault| mounted.disk.inject(fault));
    let refusals = crew.persist(&mut client, REQUESTS)?;
    let right: &[u16] = if errno == libc::ENOSPC { &[507, 503] } else { &[503, 500] };
    if let Some(status) = refusals.iter().find(|status| !right.contains(status)) {
        return Err(format!("status {status}\n{}", server.log()).into());
    }
    if armed.is_some_and(|armed| mounted.disk.fired(armed) == 0) && !refusals.is_empty() {
        return Err(format!("{refusals:?} without a fault").into());
    }
    let counts =
        OpKind::CHANGES.iter().zip(before).map(|(kind, before)| (*kind, mounted.disk.counts().of(*kind) - before));
    let counts = counts.collect();
    mounted.disk.clear_faults();
    if !server.is_running() {
        return Err(format!("the server has ended\n{}", server.log()).into());
    }
    client.put(&format!("{HOME}/next"), incompressible(1, 2 << 20))?.expect_status(201)?;
    expect_clean(server.options())?;
    server.kill_9()?;
    let after = mount(mounted.disk.power_cut(1), &mounted.place)?;
    let server = after.options()?.start()?;
    crew.judge(&template.client(&server))?;
    expect_clean(server.options())?;
    Ok((refusals, counts))
}

/// `HOLDFAST_FAULT_STEP` sets the distance between the operations that fail: 1 tries each sync and creation, and one write of
/// [`WRITES_PER_STEP`].
#[test]
fn an_operation_of_the_disk_that_fails_is_told_and_loses_nothing() -> Outcome {
    let template = Template::make()?;
    let counts = run(&template, None)?.1;
    let step = knob("HOLDFAST_FAULT_STEP", 3_u64);
    let mut faults = Vec::new();
    println!("operations of the disk: {counts:?}");
    for (number, errno) in [libc::EIO, libc::ENOSPC].into_iter().enumerate() {
        for (kind, count) in &counts {
            let step = if *kind == OpKind::Write { step * WRITES_PER_STEP } else { step };
            let places = (0..*count).filter(|place| place % step == number as u64 % step);
            faults.extend(places.map(|place| (*kind, errno, place)));
        }
    }
    println!("{} faults", faults.len());
    let (faults, refusals) = (Mutex::new(faults.into_iter()), Mutex::new(Refusals::new()));
    let take = || faults.lock().expect("no thread panics with it").next();
    thread::scope(|scope| {
        let work = || -> Outcome {
            while let Some((kind, errno, after)) = take() {
                let fault = Fault::next(kind, Action::Fail(errno)).after(after);
                let (refused, _) =
                    run(&template, Some(fault)).map_err(|e| format!("{kind:?} {after} errno {errno}: {e}"))?;
                for status in refused {
                    *refusals.lock().expect("no thread panics with it").entry((errno, status)).or_default() += 1;
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a run panicked")?)
    })?;
    println!("refusals by error number and status: {:?}", refusals.lock().expect("no thread panics with it"));
    Ok(())
}

/// A disk that fills up: uploads are refused with 507, reading and deleting go on, and what was deleted gives room again.
#[test]
fn a_full_disk_refuses_uploads_and_comes_back_by_deleting() -> Outcome {
    let template = Template::make()?;
    let mounted = template.mount()?;
    mounted.disk.set_capacity(mounted.disk.used_bytes() + (64 << 20));
    let mut server = mounted.options()?.start()?;
    let mut client = template.client(&server);
    let kept = fill(&mut client, "large", 3 << 20)?;
    // Those of a database elsewhere take no room here.
    if mounted.place.database.is_none() {
        fill(&mut client, "small", 2000)?;
    }
    let told = client.put(&format!("{HOME}/large-again"), incompressible(1, 3 << 20))?;
    assert_eq!(told.status, 507, "{}", told.text());
    println!("a full disk says: {}", told.text());

    // A full disk is when servers are started again.
    server.kill_9()?;
    let mut server = server.start_again()?;
    let mut client = template.client(&server);
    for number in 0..kept {
        let path = format!("{HOME}/large{number}");
        let body = client.get(&path)?.expect_status(200)?.body;
        assert!(body == incompressible(number, 3 << 20), "{path} differs");
    }
    for number in 0..kept {
        client.delete(&format!("{HOME}/large{number}"))?.expect_status(204)?;
    }
    empty_trash(server.options())?;
    stop(&mut server)?;
    println!("reclaim: {}", reclaim(server.options())?);
    let mut server = server.start_again()?;
    let mut client = template.client(&server);
    assert_eq!(fill(&mut client, "again", 3 << 20)?, kept, "the room of what was deleted");
    expect_clean(server.options())?;
    stop(&mut server)
}

/// Uploads files until one is refused with 507; returns how many there are.
fn fill(client: &mut Client, name: &str, bytes: usize) -> Outcome<u64> {
    for number in 0.. {
        let answer = client.put(&format!("{HOME}/{name}{number}"), incompressible(number, bytes))?;
        match answer.status {
            201 => {}
            507 => return Ok(number),
            status => return Err(format!("{name}{number}: {status} {}", answer.text()).into()),
        }
    }
    Err("the disk never fills up".into())
}

fn stop(server: &mut TestServer) -> Outcome {
    let status = server.terminate()?;
    if status.success() { Ok(()) } else { Err(format!("it stopped with {status}\n{}", server.log()).into()) }
}
