//! What the pages and their visitors do, at several nodes at once: shares and links, limits of downloads, codes and passkeys, sessions,
//! uploads in parts. Whatever one node was told holds on all with its answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::authenticator::Passkey;
use holdfast_e2e::browser::Page;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::cluster::Cluster;
use holdfast_e2e::engines::{Engines, Store};
use holdfast_e2e::rig::{NAME, PASSWORD};
use holdfast_e2e::wait::Over;
use holdfast_testkit::data::incompressible;
use holdfast_testkit::http::Request;
use serde_json::{Value, json};

const ENGINES: Engines = Engines { postgres: true, store: Store::Fs };
/// Somebody with whom a folder is shared.
const OTHER: &str = "ben";
const OTHER_PASSWORD: &str = "a ladder of wet granite";
/// What they call it.
const VIEW: &str = "trip%20(ann)";
/// Answers of each node before something is ended, and after, which all must be refusals.
const ANSWERS: usize = 10;
/// For how long they are waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// Three nodes, two accounts, and a folder of the first with a file.
fn stage() -> Outcome<(Cluster, Page)> {
    let cluster = Cluster::new(ENGINES, 3)?;
    cluster.nodes[0].add_account(OTHER, OTHER_PASSWORD)?;
    let mut ann = Page::signed_in(&cluster.nodes[0], NAME, PASSWORD)?;
    ann.call("POST", "/folders/ann/trip", &Value::Null)?.expect_status(201)?;
    ann.put("/content/ann/trip/map.txt", b"a map")?.expect_status(201)?;
    Ok((cluster, ann))
}

/// Asks on all nodes without a pause, ends it by `end`, and goes on for a while. What was answered before must be 200, and what was asked after the
/// end had been answered must be `refusal`.
fn ends_everywhere(cluster: &Cluster, page: &Page, path: &str, refusal: u16, end: impl FnOnce() -> Outcome) -> Outcome {
    let over = AtomicBool::new(false);
    let counts: Vec<AtomicUsize> = cluster.nodes.iter().map(|_| AtomicUsize::new(0)).collect();
    let wait_for_more = || {
        let wanted: Vec<usize> = counts.iter().map(|count| count.load(Ordering::Relaxed) + ANSWERS).collect();
        let began = Instant::now();
        let few = || counts.iter().zip(&wanted).any(|(count, wanted)| count.load(Ordering::Relaxed) < *wanted);
        while few() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let (ended, answers) = std::thread::scope(|scope| {
        let over = &over;
        let threads: Vec<_> = cluster
            .nodes
            .iter()
            .zip(&counts)
            .map(|(node, count)| {
                let mut page = page.at(node);
                scope.spawn(move || -> Outcome<Vec<(Instant, Instant, u16)>> {
                    let mut answers = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let asked = Instant::now();
                        let status = page.get(path)?.status;
                        answers.push((asked, Instant::now(), status));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(answers)
                })
            })
            .collect();
        let asking = Over(over);
        wait_for_more();
        let before = Instant::now();
        let ended = end().map(|()| (before, Instant::now()));
        wait_for_more();
        drop(asking);
        let answers = threads.into_iter().map(|thread| thread.join().map_err(|_| "a reader panicked")?);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((ended?, answers.collect::<Outcome<Vec<_>>>()?))
    })?;
    let (before, after) = ended;
    for (node, answers) in answers.iter().enumerate() {
        let early: Vec<u16> =
            answers.iter().filter(|(_, answered, _)| *answered < before).map(|(.., status)| *status).collect();
        assert!(!early.is_empty() && early.iter().all(|status| *status == 200), "{path} at node {node}: {early:?}");
        let late: Vec<u16> = answers.iter().filter(|(asked, ..)| *asked > after).map(|(.., status)| *status).collect();
        assert!(!late.is_empty() && late.iter().all(|status| *status == refusal), "{path} at node {node}: {late:?}");
    }
    Ok(())
}

#[test]
fn a_share_made_on_one_node_opens_on_all_and_taken_back_on_one_is_refused_on_all() -> Outcome {
    let (cluster, mut ann) = stage()?;
    let ben = Page::signed_in(&cluster.nodes[1], OTHER, OTHER_PASSWORD)?;
    let file = format!("/content/{VIEW}/map.txt");
    for again in 0..2 {
        let share = ann.share(NAME, "/trip", &json!({"account": OTHER, "access": "write"}))?;
        for node in &cluster.nodes {
            let mut ben = ben.at(node);
            assert_eq!(ben.get(&file)?.expect_status(200)?.text(), "a map");
            let mut dav = node.client_of(OTHER, OTHER_PASSWORD);
            dav.send(&Request::with_target("GET", &format!("/dav/{VIEW}/map.txt")))?.expect_status(200)?;
        }
        let id = share["id"].as_str().ok_or("no id")?;
        // Taken back on a node where it was not made.
        let mut owner = ann.at(&cluster.nodes[again + 1]);
        ends_everywhere(&cluster, &ben, &file, 404, || {
            owner.call("DELETE", &format!("/shares/{id}"), &Value::Null)?.expect_status(204)?;
            Ok(())
        })?;
        for node in &cluster.nodes {
            let mut dav = node.client_of(OTHER, OTHER_PASSWORD);
            dav.send(&Request::with_target("GET", &format!("/dav/{VIEW}/map.txt")))?.expect_status(404)?;
            dav.send(&Request::with_target("PUT", &format!("/dav/{VIEW}/late.txt")).body("late"))?
                .expect_status(404)?;
        }
    }
    assert_eq!(ann.get("/nodes/ann/trip/late.txt")?.status, 404);
    Ok(())
}

#[test]
fn a_link_made_on_one_node_opens_on_all_and_ends_on_all_in_the_middle_of_visits() -> Outcome {
    let (cluster, mut ann) = stage()?;
    let file = "/content/link/map.txt";
    // Each is one way of ending what visitors see, on another node than that which they visit.
    let ends: [(&str, Value); 4] = [
        ("DELETE", Value::Null),
        ("PATCH", json!({"password": "a plain word"})),
        ("PATCH", json!({"access": "upload"})),
        ("PATCH", json!({"expires_ms": Value::Null})),
    ];
    for (number, (method, change)) in ends.into_iter().enumerate() {
        let share = ann.share(NAME, "/trip", &json!({"access": "read"}))?;
        let visit = Page::visit(&cluster.nodes[number % 3], &share, None)?;
        for node in &cluster.nodes {
            assert_eq!(visit.at(node).get(file)?.expect_status(200)?.text(), "a map");
            Page::visit(node, &share, None)?;
        }
        let mut owner = ann.at(&cluster.nodes[(number + 1) % 3]);
        let address = format!("/shares/{}", share["id"].as_str().ok_or("no id")?);
        ends_everywhere(&cluster, &visit, file, 401, || {
            // An end that has passed cannot be set: it is set some time before.
            let soon = json!({"expires_ms": now_ms() + 5_000});
            let change = if change.get("expires_ms").is_some() { soon } else { change };
            let answer = owner.call(method, &address, &change)?;
            assert!(answer.is_success(), "{}", answer.text());
            if let Some(end) = change["expires_ms"].as_i64() {
                std::thread::sleep(Duration::from_millis(u64::try_from(end - now_ms()).unwrap_or(0) + 1));
            }
            Ok(())
        })?;
    }
    // Whoever made it is shut out, and with them their links.
    let share = ann.share(NAME, "/trip", &json!({"access": "read"}))?;
    let visit = Page::visit(&cluster.nodes[2], &share, None)?;
    ends_everywhere(&cluster, &visit, file, 401, || {
        cluster.nodes[1].options().run_ok(&["account", "disable", NAME], b"")?;
        Ok(())
    })
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[test]
fn downloads_are_counted_right_when_all_nodes_are_asked_at_once() -> Outcome {
    const ALLOWED: usize = 7;
    let (cluster, mut ann) = stage()?;
    for name in ["one", "two", "three"] {
        ann.put(&format!("/content/ann/trip/{name}"), name.as_bytes())?.expect_status(201)?;
    }
    let share = ann.share(NAME, "/trip", &json!({"access": "read", "downloads_max": ALLOWED}))?;
    let visits: Vec<Page> =
        (0..4).map(|number| Page::visit(&cluster.nodes[number % 3], &share, None)).collect::<Outcome<_>>()?;
    // Twelve downloads, each asked for on all nodes at once.
    let wanted: Vec<(usize, &str, usize)> = (0..visits.len())
        .flat_map(|visit| ["one", "two", "three"].into_iter().map(move |name| (visit, name)))
        .flat_map(|(visit, name)| (0..3).map(move |node| (visit, name, node)))
        .collect();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let ask = |&(visit, name, node): &(usize, &'static str, usize)| {
            let mut page = visits[visit].at(&cluster.nodes[node]);
            scope.spawn(move || page.get(&format!("/content/link/{name}")).map(|answer| answer.status))
        };
        let threads: Vec<_> = wanted.iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a visitor panicked")?).collect::<Outcome<_>>()
    })?;
    assert!(answers.iter().all(|status| matches!(status, 200 | 403)), "{answers:?}");
    // The three requests of one download are answered alike.
    let downloads: Vec<&[u16]> = answers.chunks(3).collect();
    assert!(downloads.iter().all(|three| three.iter().all(|status| *status == three[0])), "{downloads:?}");
    assert_eq!(downloads.iter().filter(|three| three[0] == 200).count(), ALLOWED, "{downloads:?}");
    let listed = ann.at(&cluster.nodes[2]).json("GET", "/shares", &Value::Null, 200)?;
    assert_eq!(listed["by_me"][0]["downloads"], ALLOWED);
    Ok(())
}

/// The code of now, or of some steps later, of a secret as an app reads it.
fn code(secret: &str, later: i64) -> Outcome<String> {
    let letter = |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == byte);
    let values: Option<Vec<usize>> = secret.bytes().map(letter).collect();
    let bits: Vec<usize> = values
        .ok_or("not Base32")?
        .into_iter()
        .flat_map(|value| (0..5).rev().map(move |bit| value >> bit & 1))
        .collect();
    let byte = |eight: &[usize]| eight.iter().fold(0_u8, |all, bit| all << 1 | u8::from(*bit == 1));
    let secret: Vec<u8> = bits.chunks_exact(8).map(byte).collect();
    Ok(holdfast_seal::proof::one_time_code(&secret, now_ms() / 30_000 + later))
}

/// Sends one request to each node at once; the statuses in order.
fn at_once(cluster: &Cluster, path: &str, body: &Value) -> Outcome<Vec<u16>> {
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |node| {
            let mut page = Page::new(node);
            scope.spawn(move || page.call("POST", path, body).map(|answer| answer.status))
        };
        let threads: Vec<_> = cluster.nodes.iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a browser panicked")?).collect::<Outcome<_>>()
    })?;
    statuses.sort_unstable();
    Ok(statuses)
}

#[test]
fn a_code_and_a_passkey_s_answer_count_once_whichever_nodes_see_them() -> Outcome {
    let (cluster, mut ann) = stage()?;
    let password = json!({"password": PASSWORD});
    let mut passkey = Passkey::new()?;
    let question = ann.json("POST", "/me/passkeys/question", &password, 200)?;
    let registration = passkey.registration(&question)?;
    ann.at(&cluster.nodes[1]).json("POST", "/me/passkeys", &registration, 201)?;
    let again = ann.at(&cluster.nodes[2]).call("POST", "/me/passkeys", &registration)?.status;
    assert!(matches!(again, 400..500), "{again}");
    for node in [0, 1, 2] {
        let question = Page::new(&cluster.nodes[node]).json("POST", "/session/passkey/question", &Value::Null, 200)?;
        let answer = json!({"answer": passkey.assertion(&question)});
        assert_eq!(at_once(&cluster, "/session/passkey", &answer)?, [200, 401, 401]);
    }

    let new = ann.json("POST", "/me/codes", &password, 200)?;
    let secret = new["secret"].as_str().ok_or("no secret")?.to_owned();
    let first = json!({"ticket": new["ticket"], "code": code(&secret, -1)?});
    ann.at(&cluster.nodes[2]).call("PUT", "/me/codes", &first)?.expect_status(204)?;
    let sign_in = json!({"name": NAME, "password": PASSWORD, "code": code(&secret, 0)?});
    let statuses = at_once(&cluster, "/session", &sign_in)?;
    assert!(statuses[0] == 200 && statuses[1..].iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
    Ok(())
}

#[test]
fn sessions_ended_on_one_node_end_on_all() -> Outcome {
    let (cluster, mut ann) = stage()?;
    let other = |node: usize| Page::signed_in(&cluster.nodes[node], NAME, PASSWORD);
    let (listed, changed, removed) = (other(1)?, other(2)?, other(0)?);
    let sessions = ann.json("GET", "/sessions", &Value::Null, 200)?;
    let others = sessions.as_array().ok_or("no list")?.iter().filter(|session| session["current"] == json!(false));
    assert_eq!(others.clone().count(), 3, "{sessions}");
    let oldest = others.min_by_key(|session| session["created_ms"].as_i64()).ok_or("no session")?;
    let mut at = ann.at(&cluster.nodes[2]);
    ends_everywhere(&cluster, &listed, "/me", 401, || {
        at.call("DELETE", &format!("/sessions/{}", oldest["id"]), &Value::Null)?.expect_status(204)?;
        Ok(())
    })?;
    let mut at = ann.at(&cluster.nodes[0]);
    let new = "nine copper kettles sing";
    ends_everywhere(&cluster, &changed, "/me", 401, || {
        let body = json!({"current": PASSWORD, "new": new});
        at.call("PUT", "/me/password", &body)?.expect_status(204)?;
        Ok(())
    })?;
    for node in &cluster.nodes {
        assert_eq!(removed.at(node).get("/me")?.status, 401);
        ann.at(node).get("/me")?.expect_status(200)?;
    }
    ends_everywhere(&cluster, &ann, "/me", 403, || {
        cluster.nodes[1].options().run_ok(&["account", "disable", NAME], b"")?;
        Ok(())
    })
}

#[test]
fn an_upload_of_a_visitor_begun_on_one_node_goes_on_on_another_after_the_first_is_killed_and_ends_on_a_third() -> Outcome
{
    let (mut cluster, mut ann) = stage()?;
    let content = incompressible(3, 24_000_000);
    let share = ann.share(NAME, "/trip", &json!({"access": "upload"}))?;
    let mut on_a = Page::visit(&cluster.nodes[0], &share, None)?;
    let upload = on_a.begin(content.len(), &[("space", "link"), ("path", "film.bin")])?;
    let (first, under_way) = (5_000_003, 9_000_000);
    on_a.send_part(&upload, 0, &content[..first])?.expect_status(204)?;
    let mut cut = on_a.open_part(&upload, first)?;
    cut.write(&content[first..under_way])?;
    cluster.nodes[0].kill_9()?;
    drop(cut);
    let mut on_b = on_a.at(&cluster.nodes[1]);
    let told = on_b.offset(&upload)?;
    assert!((first..=under_way).contains(&told), "{told}");
    let middle = 17_000_000;
    on_b.send_part(&upload, told, &content[told..middle])?.expect_status(204)?;
    let mut on_c = on_b.at(&cluster.nodes[2]);
    assert_eq!(on_c.offset(&upload)?, middle);
    on_c.send_part(&upload, middle, &content[middle..])?.expect_status(204)?;
    assert_eq!(on_b.offset(&upload)?, content.len(), "a client that did not hear the answer asks");
    let mut ann = ann.at(&cluster.nodes[1]);
    assert!(ann.get("/content/ann/trip/film.bin")?.body == content);
    assert_eq!(ann.reserved(NAME)?, 0);
    cluster.start_again(0)?;
    assert!(ann.at(&cluster.nodes[0]).get("/content/ann/trip/film.bin")?.body == content);
    let options = cluster.nodes[0].options().clone();
    for node in &mut cluster.nodes {
        assert!(node.terminate()?.success());
    }
    expect_clean(&options)
}
