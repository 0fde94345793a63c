//! Several nodes on one catalogue and one store: no answer depends on which node gives it, and no node is needed.

use std::io::Read;
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::burst::Crew;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::cluster::Cluster;
use holdfast_e2e::engines::{Engines, Store};
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD, make_token};
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::Request;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::TestServer;
use rustix::process::Signal;

const POSTGRES_FS: Engines = Engines { postgres: true, store: Store::Fs };
const POSTGRES_S3: Engines = Engines { postgres: true, store: Store::S3 };

#[test]
fn any_node_answers_for_all() -> Outcome {
    let mut cluster = Cluster::new(POSTGRES_FS, 3)?;
    let mut clients = cluster.clients(PASSWORD);
    let content = incompressible(1, 5_000_000);
    for (number, writer) in [2, 0, 1].into_iter().enumerate() {
        let path = format!("{HOME}/of-{writer}");
        clients[writer].put(&path, content.clone())?.expect_status(201)?;
        for reader in &mut clients {
            assert!(reader.get(&path)?.body == content);
        }
        assert_eq!(clients[number].list(HOME, "1")?.len(), number + 2);
    }

    // One of many makers wins, whoever asks.
    let made: Vec<u16> = std::thread::scope(|scope| {
        let ask = |mut client: holdfast_testkit::http::Client| {
            scope.spawn(move || {
                let request = Request::new("PUT", &format!("{HOME}/once")).header("If-None-Match", "*").body("x");
                client.send(&request).map(|answer| answer.status)
            })
        };
        let asked: Vec<_> = clients.iter().cycle().take(9).cloned().map(ask).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()?.ok()).collect()
    });
    assert_eq!(made.iter().filter(|&&status| status == 201).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|&&status| status == 412).count(), 8, "{made:?}");

    // A lock that one node gave is a lock on all.
    let once = format!("{HOME}/once");
    let locked = clients[0].lock(&once, "exclusive", "0")?.expect_status(200)?;
    let token = locked.header("Lock-Token").ok_or("no token")?.trim_matches(['<', '>']).to_owned();
    clients[1].put(&once, "y")?.expect_status(423)?;
    let with = Request::new("PUT", &once).header("If", format!("(<{token}>)")).body("z");
    clients[1].send(&with)?.expect_status(204)?;
    clients[2].unlock(&once, &token)?.expect_status(204)?;

    // An account that was disabled opens no node any more, though each has its password in memory.
    let options = cluster.nodes[0].options().clone();
    let output = options.run(&["account", "disable", NAME], b"")?;
    assert!(output.status.success(), "{output:?}");
    for client in &mut clients {
        assert!(matches!(client.get(&once)?.status, 401 | 403));
    }
    let output = options.run(&["account", "enable", NAME], b"")?;
    assert!(output.status.success(), "{output:?}");

    assert_eq!(cluster.up()?, ["node0", "node1", "node2"]);
    assert!(cluster.nodes[1].terminate()?.success());
    assert_eq!(cluster.up()?, ["node0", "node2"]);
    cluster.nodes[2].kill_9()?;
    cluster.start_again(1)?;
    cluster.start_again(2)?;
    assert_eq!(cluster.up()?, ["node0", "node1", "node2"]);
    for mut client in cluster.clients(PASSWORD) {
        assert!(client.get(&format!("{HOME}/of-2"))?.body == content);
    }
    expect_clean(&options)
}

#[test]
fn an_upload_goes_on_through_any_node() -> Outcome {
    for engines in [POSTGRES_FS, POSTGRES_S3] {
        let mut cluster = Cluster::new(engines, 3)?;
        let content = incompressible(1, 30_000_000);
        let new = Request::with_target("POST", "/api/v1/uploads")
            .header("Tus-Resumable", "1.0.0")
            .header("Upload-Length", content.len().to_string())
            .header("Upload-Metadata", "path Zg==");
        let begun = cluster.clients(PASSWORD)[0].send(&new)?.expect_status(201)?;
        let upload = begun.header("Location").ok_or("no address")?.to_owned();
        let head = Request::with_target("HEAD", &upload).header("Tus-Resumable", "1.0.0");
        let mut told = 0;
        for (number, end) in [1, 2, 0, 1, 2].into_iter().zip([700_001, 9_000_000, 9_000_010, 20_000_000, content.len()])
        {
            let mut clients = cluster.clients(PASSWORD);
            let patch = Request::with_target("PATCH", &upload)
                .header("Tus-Resumable", "1.0.0")
                .header("Upload-Offset", told.to_string())
                .header("Content-Type", "application/offset+octet-stream")
                .body(&content[told..end]);
            clients[number].send(&patch)?.expect_status(204)?;
            told = end;
            // Whoever took it is gone at once; what it answered is known to the others.
            cluster.nodes[number].kill_9()?;
            let answer = clients[(number + 1) % 3].send(&head)?.expect_status(200)?;
            assert_eq!(answer.header("Upload-Offset"), Some(told.to_string().as_str()));
            cluster.start_again(number)?;
        }
        for mut client in cluster.clients(PASSWORD) {
            assert!(client.get(&format!("{HOME}/f"))?.body == content);
        }
        let options = cluster.nodes[0].options().clone();
        for node in &mut cluster.nodes {
            assert!(node.terminate()?.success());
        }
        expect_clean(&options)?;
    }
    Ok(())
}

/// `HOLDFAST_CHAOS_ROUNDS` sets how often.
#[test]
fn nothing_acknowledged_is_lost_when_nodes_are_killed() -> Outcome {
    let rounds = knob("HOLDFAST_CHAOS_ROUNDS", 8_u64);
    let mut rng = Prng::new(knob("HOLDFAST_SEED", 1));
    for engines in [POSTGRES_FS, POSTGRES_S3] {
        let mut cluster = Cluster::new(engines, 3)?;
        let options = cluster.nodes[0].options().clone();
        let token = make_token(&options)?;
        let mut crew = Crew::new(rng.next_u64(), 6, HOME, 24 << 20);
        let mut answers = 0;
        for round in 0..rounds {
            let clients = cluster.clients(&token);
            let (victim, after) = (rng.index(3), rng.below(60));
            let node = &mut cluster.nodes[victim];
            answers += crew.work_on(
                &clients,
                |progress| progress.answers() > after + 40,
                |progress| {
                    progress.wait_for(after);
                    Ok(node.kill_9()?)
                },
            )?;
            // What the victim did not answer was done or not, as the others see at once.
            crew.judge(&clients[(victim + 1) % 3]).map_err(|error| format!("round {round}, {engines:?}: {error}"))?;
            cluster.start_again(victim)?;
        }
        println!("{engines:?}: {rounds} nodes killed, {answers} requests acknowledged");
        for node in &mut cluster.nodes {
            assert!(node.terminate()?.success());
        }
        expect_clean(&options)?;
    }
    Ok(())
}

/// Hands out bytes at some 7 MB/s.
struct Slow<'b>(&'b [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_millis(9));
        let part = out.len().min(64 << 10);
        self.0.read(&mut out[..part])
    }
}

/// Longer than a node may be silent.
const ASLEEP: Duration = Duration::from_secs(40);

#[test]
fn a_node_that_slept_too_long_is_given_up_and_joins_again() -> Outcome {
    let cluster = Cluster::new(POSTGRES_FS, 2)?;
    let options = cluster.nodes[0].options().clone();
    let mut clients = cluster.clients(PASSWORD);
    let (content, after) = (incompressible(1, 30_000_000), incompressible(2, 3_000_000));
    let uploaded = std::thread::scope(|scope| {
        let client = cluster.nodes[1].client_of(NAME, PASSWORD);
        let content = &content;
        // Half of it arrives before the node sleeps, so that it has blocks of it in a pack and a reservation.
        let upload = scope.spawn(move || {
            let client = &mut client.with_timeout(2 * ASLEEP);
            client.put_stream(&format!("{HOME}/asleep"), content.len() as u64, &mut Slow(content))
        });
        std::thread::sleep(Duration::from_secs(2));
        cluster.nodes[1].signal(Signal::STOP)?;
        let asleep = Instant::now();
        while asleep.elapsed() < ASLEEP {
            clients[0].put(&format!("{HOME}/awake"), after.clone())?;
            std::thread::sleep(Duration::from_secs(1));
        }
        assert_eq!(cluster.up()?, ["node0"]);
        cluster.nodes[1].signal(Signal::CONT)?;
        let answer = upload.join().map_err(|_| "the upload panicked")?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer.map(|answer| answer.status))
    })?;
    // Whatever it answered is true.
    match uploaded {
        Ok(201) => assert!(clients[0].get(&format!("{HOME}/asleep"))?.body == content),
        // 404: the upload is not under way any more.
        Ok(404 | 503) | Err(_) => clients[0].get(&format!("{HOME}/asleep"))?.expect_status(404).map(drop)?,
        Ok(other) => return Err(format!("the upload was answered with {other}").into()),
    }
    let deadline = Instant::now() + Duration::from_secs(15);
    while cluster.up()? != ["node0", "node1"] {
        assert!(Instant::now() < deadline, "it did not join again\n{}", cluster.nodes[1].log());
        std::thread::sleep(Duration::from_millis(200));
    }
    clients[1].put(&format!("{HOME}/again"), after.clone())?.expect_status(201)?;
    assert!(clients[0].get(&format!("{HOME}/again"))?.body == after);
    expect_clean(&options)
}

/// A machine was cloned with its data directory: the two nodes find out, and do not put each other out for ever.
#[test]
fn two_nodes_on_copies_of_one_data_directory_both_serve() -> Outcome {
    let mut cluster = Cluster::new(POSTGRES_FS, 2)?;
    assert!(cluster.nodes[1].terminate()?.success());
    let folder = |node: &TestServer| node.options().data().to_owned();
    let (original, copy) = (folder(&cluster.nodes[0]), folder(&cluster.nodes[1]));
    std::fs::remove_dir_all(&copy)?;
    let copied = std::process::Command::new("cp").arg("-r").args([&original, &copy]).status()?;
    assert!(copied.success());
    cluster.start_again(1)?;
    let ids = |cluster: &Cluster| -> Outcome<Vec<i64>> {
        let nodes = cluster.status()?.0["nodes"].as_array().cloned().unwrap_or_default();
        Ok(nodes.iter().filter_map(|node| node["id"].as_i64()).collect())
    };
    let began = Instant::now();
    while ids(&cluster)?.len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(30), "the first node does not come back");
        std::thread::sleep(Duration::from_millis(200));
    }
    let both = ids(&cluster)?;
    // Time for each to say twice that it is there.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(ids(&cluster)?, both);
    assert!(cluster.nodes[0].log().contains("a copy of this node's data directory"), "{}", cluster.nodes[0].log());
    for (number, client) in cluster.clients(PASSWORD).iter_mut().enumerate() {
        client.put(&format!("{HOME}/by-{number}"), incompressible(1, 3_000_000))?.expect_status(201)?;
    }
    expect_clean(cluster.nodes[0].options())
}

#[test]
fn a_browser_s_session_is_one_on_every_node_until_any_of_them_ends_it() -> Outcome {
    let cluster = Cluster::new(POSTGRES_FS, 2)?;
    let body = format!("{{\"name\": \"{NAME}\", \"password\": \"{PASSWORD}\"}}");
    let sign_in = Request::with_target("POST", "/api/v1/session").header("Content-Type", "application/json").body(body);
    let opened = cluster.nodes[0].client().send(&sign_in)?.expect_status(200)?;
    let cookie = opened.header("Set-Cookie").and_then(|set| set.split(';').next()).ok_or("no cookie")?.to_owned();
    let ask = |node: usize, method: &str, path: &str| {
        let request = Request::with_target(method, path).header("Cookie", &cookie);
        cluster.nodes[node].client().send(&request.header("Sec-Fetch-Site", "same-origin"))
    };
    for node in [1, 0] {
        ask(node, "GET", "/api/v1/me")?.expect_status(200)?;
    }
    ask(1, "DELETE", "/api/v1/session")?.expect_status(204)?;
    for node in [0, 1] {
        ask(node, "GET", "/api/v1/me")?.expect_status(401)?;
    }
    Ok(())
}
