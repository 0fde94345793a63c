//! Everything at once: three nodes, PostgreSQL with a synchronous standby, an object store, a balancer, and mixed writers, while nodes
//! are killed, stopped and put to sleep, the store stalls and fails, and the database fails over. No acknowledged write is lost or
//! torn, and what clients see are answers that invite to try again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::balancer::{Balancer, Kind};
use holdfast_e2e::burst::Crew;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::cluster::Cluster;
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME, make_token};
use holdfast_testkit::http::Client;
use holdfast_testkit::postgres::{Durability, PostgresServer};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::services::proxy::{Fault, Proxy};
use holdfast_testkit::services::seaweed::Seaweed;
use rustix::process::Signal;

/// How long the service may take to answer again after a fault: a failover of the database included.
const RECOVERY_LIMIT: Duration = Duration::from_secs(40);

/// What may be answered when it could not be done.
const RETRYABLE: [u16; 3] = [502, 503, 504];

/// `HOLDFAST_CHAOS_SECONDS` sets how long.
#[test]
fn nothing_acknowledged_is_lost_whatever_fails() -> Outcome {
    let time = Duration::from_secs(knob("HOLDFAST_CHAOS_SECONDS", 120));
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    let mut primary = PostgresServer::start(Durability::Disk)?;
    primary.sql("postgres", "CREATE DATABASE drive")?;
    let standby = primary.standby()?;
    let store = Seaweed::start()?;
    let proxy = Proxy::start(store.s3_port)?;
    let (bucket, endpoint) = (Seaweed::BUCKET, proxy.url());
    let hosts = format!("{},{}", primary.address(), standby.address());
    let variables = [
        ("HOLDFAST_CATALOGUE__URL", format!("postgres://holdfast@{hosts}/drive?target_session_attrs=read-write")),
        ("HOLDFAST_STORE__URL", format!("s3://{bucket}/drive?endpoint={endpoint}&path_style=true")),
        ("AWS_ACCESS_KEY_ID", Seaweed::ACCESS_KEY_ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", Seaweed::SECRET_ACCESS_KEY.to_owned()),
    ];
    let mut cluster = Cluster::behind_a_balancer_on(&variables, 3, tempfile::tempdir()?)?;
    let balancer = Balancer::start(Kind::Haproxy, &cluster.fixed)?;
    let options = cluster.nodes[0].options().clone();
    let client =
        Client::new(balancer.plain).with_account(NAME, &make_token(&options)?).with_timeout(2 * RECOVERY_LIMIT);
    let mut crew = Crew::new(rng.next_u64(), 6, HOME, 24 << 20);

    let began = Instant::now();
    let (mut answers, mut rounds, mut failed_over) = (0, 0, false);
    while began.elapsed() < time || !failed_over {
        rounds += 1;
        let after = rng.below(80);
        let fail_over = !failed_over && began.elapsed() > time / 2;
        failed_over |= fail_over;
        let (kind, number) = (rng.below(5), rng.index(3));
        let pause = Duration::from_millis(500 + rng.below(2_500));
        let node = &mut cluster.nodes[number];
        answers += crew.work(
            &client,
            |progress| progress.answers() > after + 150,
            |progress| {
                progress.wait_for(after);
                if fail_over {
                    primary.crash()?;
                    return Ok(standby.promote()?);
                }
                match kind {
                    0 => node.kill_9()?,
                    1 => assert!(node.terminate()?.success()),
                    2 => {
                        node.signal(Signal::STOP)?;
                        sleep(pause);
                        node.signal(Signal::CONT)?;
                    }
                    3 => {
                        proxy.set_latency(pause);
                        progress.wait_for(progress.answers() + 10);
                        proxy.set_latency(Duration::ZERO);
                    }
                    _ => {
                        proxy.on(2, Fault::Answer(503, "", "not now"), |request| request.method == "PUT");
                        proxy.on(2, Fault::CutAnswer, |request| request.method == "PUT");
                        proxy.on(2, Fault::CutBefore, |request| request.method == "GET");
                        progress.wait_for(progress.answers() + 30);
                        proxy.clear();
                    }
                }
                Ok(())
            },
        )?;
        if !cluster.nodes[number].is_running() {
            cluster.start_again(number)?;
        }
        wait_until_ready(&balancer)?;
        crew.judge(&client).map_err(|error| format!("round {rounds} (fault {kind}, failover {fail_over}): {error}"))?;
    }
    let refusals = crew.refusals();
    println!(
        "{rounds} faults in {:.0} s, {answers} requests acknowledged, refused {refusals:?}",
        began.elapsed().as_secs_f64()
    );
    assert!(refusals.iter().all(|status| RETRYABLE.contains(status)), "{refusals:?}");
    for node in &mut cluster.nodes {
        assert!(node.terminate()?.success());
    }
    expect_clean(&options)
}

fn wait_until_ready(balancer: &Balancer) -> Outcome {
    let began = Instant::now();
    // Several answers in a row: every node is asked.
    let mut client = Client::new(balancer.plain);
    let mut ready = 0;
    while ready < 6 {
        ready = if client.get("/readyz").is_ok_and(|answer| answer.status == 200) { ready + 1 } else { 0 };
        if began.elapsed() > RECOVERY_LIMIT {
            return Err("the service did not come back".into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}
