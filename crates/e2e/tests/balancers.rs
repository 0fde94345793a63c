//! Nodes behind the balancers of `deploy/balancer`, the real programs: uploads, moves and downloads by TLS, and no request that
//! fails while every node is stopped in good order and started again. None of the configurations has stickiness.

use std::net::SocketAddr;
use std::sync::Mutex;

use holdfast_e2e::Outcome;
use holdfast_e2e::balancer::{Balancer, Kind};
use holdfast_e2e::burst::Crew;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::cluster::Cluster;
use holdfast_e2e::engines::{Engines, Store};
use holdfast_e2e::others::LITMUS;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD, make_token};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::Client;

/// One balancer at a time: each is a cluster of its own.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn haproxy_before_nodes_that_are_upgraded_fails_no_request() -> Outcome {
    let (_cluster, balancer) = work_through(Kind::Haproxy)?;
    LITMUS.run(balancer.plain)
}

#[test]
fn nginx_before_nodes_that_are_upgraded_fails_no_request() -> Outcome {
    work_through(Kind::Nginx).map(drop)
}

#[test]
fn apache_before_nodes_that_are_upgraded_fails_no_request() -> Outcome {
    work_through(Kind::Apache).map(drop)
}

#[test]
fn caddy_before_nodes_that_are_upgraded_fails_no_request() -> Outcome {
    work_through(Kind::Caddy).map(drop)
}

fn work_through(kind: Kind) -> Outcome<(Cluster, Balancer)> {
    let _one = ONE.lock();
    let mut cluster = Cluster::behind_a_balancer(Engines { postgres: true, store: Store::Fs }, 3)?;
    let nodes: Vec<SocketAddr> = cluster.fixed.clone();
    let balancer = Balancer::start(kind, &nodes)?;
    by_tls(&balancer)?;

    let options = cluster.nodes[0].options().clone();
    let client = Client::new(balancer.plain).with_account(NAME, &make_token(&options)?);
    let mut crew = Crew::new(1, 4, HOME, 24 << 20);
    // All nodes one after the other, as an upgrade does it.
    let upgraded = Mutex::new(false);
    let answers = crew.work(
        &client,
        |_| *upgraded.lock().expect("nobody panics"),
        |progress| {
            let outcome = (0..cluster.nodes.len()).try_for_each(|number| {
                progress.wait_for(progress.answers() + 50);
                let status = cluster.nodes[number].terminate()?;
                assert!(status.success(), "{status}");
                cluster.start_again(number)
            });
            progress.wait_for(progress.answers() + 100);
            *upgraded.lock().expect("nobody panics") = true;
            outcome
        },
    )?;
    println!("{kind:?}: {answers} requests answered while three nodes were stopped and started");
    assert_eq!(crew.unanswered(), Vec::<String>::new(), "{kind:?}: {}", balancer.log());
    crew.judge(&client)?;
    expect_clean(&options)?;
    Ok((cluster, balancer))
}

/// What people do, by TLS: put, move (whose Destination has the balancer's name), get, a range, an upload of unknown length.
fn by_tls(balancer: &Balancer) -> Outcome {
    let folder = tempfile::tempdir()?;
    let (sent, got) = (folder.path().join("sent"), folder.path().join("got"));
    let content = incompressible(7, 20_000_000);
    std::fs::write(&sent, &content)?;
    let run = |arguments: &[&str]| -> Outcome {
        let output = balancer.curl().args(["--user", &format!("{NAME}:{PASSWORD}")]).args(arguments).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("curl {arguments:?}: {}", String::from_utf8_lossy(&said)).into())
    };
    let (from, to) = (balancer.url(&format!("{HOME}/one%20%25%2b%C3%A4")), balancer.url(&format!("{HOME}/moved")));
    let sent = sent.display().to_string();
    let shown = got.display().to_string();
    run(&["--upload-file", &sent, &from])?;
    run(&["--upload-file", &sent, "--header", "Transfer-Encoding: chunked", &from])?;
    run(&["--request", "MOVE", "--header", &format!("Destination: {to}"), &from])?;
    run(&["--output", &shown, &to])?;
    assert!(std::fs::read(&got)? == content);
    run(&["--output", &shown, "--range", "1000-1999", &to])?;
    assert!(std::fs::read(&got)? == content[1000..2000]);
    run(&["--request", "DELETE", &to])
}
