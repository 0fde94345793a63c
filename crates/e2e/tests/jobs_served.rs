//! Jobs that servers run: by schedule, by the API and by mail, through kills, and by one of several nodes at a time.

use holdfast_e2e::Outcome;
use holdfast_e2e::cluster::Cluster;
use holdfast_e2e::engines::{Engines, Store};
use holdfast_e2e::knob::knob;
use holdfast_e2e::rig::{NAME, PASSWORD};
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::{ServerOptions, TestServer};
use holdfast_testkit::services::dovecot::{self, Dovecot};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

const MIB: usize = 1 << 20;
/// What has not happened by then will not: a lease of a node that is gone lapses after half a minute.
const PATIENCE: Duration = Duration::from_mins(2);

/// A folder with a job file, and what its jobs move.
struct Place(tempfile::TempDir);

impl Place {
    fn new(jobs: &str) -> Outcome<Self> {
        let place = Self(tempfile::tempdir()?);
        for folder in ["from/sub", "jobs"] {
            fs::create_dir_all(place.path(folder))?;
        }
        fs::write(place.path("from/a.txt"), "a")?;
        fs::write(place.path("from/sub/b.txt"), "bb")?;
        place.describe(jobs)?;
        Ok(place)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn describe(&self, jobs: &str) -> Outcome {
        fs::write(self.path("jobs/.new"), jobs)?;
        Ok(fs::rename(self.path("jobs/.new"), self.path("jobs/all.toml"))?)
    }

    fn serve(&self) -> Outcome<TestServer> {
        let jobs = self.path("jobs").display().to_string();
        let options = ServerOptions::new(self.path("data")).environment("HOLDFAST_JOBS__FILES", &jobs);
        options.add_account(NAME, PASSWORD)?;
        make_administrator(&options)?;
        Ok(options.start()?)
    }
}

fn make_administrator(options: &ServerOptions) -> Outcome {
    options.run_ok(&["account", "admin", NAME, "true"], b"")?;
    Ok(())
}

fn ask(client: &mut Client, method: &str, path: &str, body: Option<&Value>) -> Outcome<Response> {
    let request = Request::with_target(method, &format!("/api/v1/admin/jobs{path}"));
    let request = match body {
        Some(body) => request.header("Content-Type", "application/json").body(body.to_string()),
        None => request,
    };
    Ok(client.send(&request)?)
}

fn json_of(client: &mut Client, path: &str) -> Outcome<Value> {
    Ok(serde_json::from_slice(&ask(client, "GET", path, None)?.expect_status(200)?.body)?)
}

/// Runs of a job, the latest first, page by page.
fn runs(client: &mut Client, job: &str) -> Outcome<Vec<Value>> {
    let (mut all, mut before) = (Vec::new(), String::new());
    loop {
        let page = json_of(client, &format!("/{job}/runs?limit=7{before}"))?;
        all.extend(page["runs"].as_array().ok_or("no runs")?.iter().cloned());
        let Some(next) = page["next"].as_i64() else { return Ok(all) };
        before = format!("&before={next}");
    }
}

/// Asks until there is an answer.
fn until<T>(what: &str, mut look: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("it did not happen: {what}").into());
        }
        sleep(Duration::from_millis(50));
    }
}

fn start(client: &mut Client, job: &str, order: &Value) -> Outcome<i64> {
    let answer = ask(client, "POST", &format!("/{job}/runs"), Some(order))?.expect_status(202)?;
    let answer: Value = serde_json::from_slice(&answer.body)?;
    Ok(answer["run"].as_i64().ok_or("no number")?)
}

/// A run when it has ended.
fn ended(client: &mut Client, job: &str, run: i64) -> Outcome<Value> {
    until(&format!("run {run} of {job} ends"), || {
        let run = json_of(client, &format!("/{job}/runs/{run}"))?;
        Ok(run["result"].is_string().then_some(run))
    })
}

/// No time was dealt with by two runs of the schedule, and all runs but the last ones have an end.
fn expect_each_once(runs: &[Value]) {
    let mut times: BTreeMap<i64, u32> = BTreeMap::new();
    for run in runs.iter().filter(|run| run["trigger"] == "schedule") {
        *times.entry(run["due_ms"].as_i64().expect("a time")).or_default() += 1;
    }
    assert!(times.values().all(|count| *count == 1), "{times:?}");
    let open = runs.iter().skip(1).filter(|run| run["result"].is_null()).count();
    assert_eq!(open, 0, "{runs:#?}");
}

fn random(bytes: usize) -> Vec<u8> {
    let mut rng = Prng::new(7);
    (0..=bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

fn has_part(folder: &Path, bytes: usize) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum::<u64>() >= bytes as u64
}

#[test]
fn a_server_runs_jobs_by_schedule_and_tells_what_they_did() -> Outcome {
    let jobs = "[jobs.pull]\nfrom = '../from/.'\nto = '../to'\nevery = '1s'\n[jobs.rests]\nfrom = '../from/.'\nto = '../rested'\nactive = false\nevery = '1s'\n";
    let place = Place::new(jobs)?;
    let mut server = place.serve()?;
    let mut client = server.client_of(NAME, PASSWORD);
    until("it has run three times", || Ok((runs(&mut client, "pull")?.len() > 3).then_some(())))?;
    assert_eq!(fs::read(place.path("to/sub/b.txt"))?, b"bb");
    let all = json_of(&mut client, "")?;
    let (pull, rests) = (&all["jobs"][0], &all["jobs"][1]);
    assert!(all["configured"] == true && all["runner"].is_string(), "{all}");
    assert_eq!((pull["name"].as_str(), pull["when"].as_str()), (Some("pull"), Some("every 1s")), "{all}");
    assert!(pull["next_ms"].is_i64() && pull["last_ended"]["result"] == "succeeded", "{all}");
    assert!(rests["state"] == "inactive" && rests["next_ms"].is_null() && rests["last"].is_null(), "{all}");
    let first = runs(&mut client, "pull")?.pop().ok_or("no runs")?;
    assert_eq!((first["trigger"].as_str(), first["done"]["arrived"].as_u64()), (Some("schedule"), Some(2)), "{first}");
    expect_each_once(&runs(&mut client, "pull")?);

    // What is described anew holds from the signal on; what is broken changes nothing.
    place.describe("[jobs.pull]\nfrom = 7\n")?;
    server.signal(Signal::HUP)?;
    until("it says so", || Ok(server.log().contains("all.toml:2").then_some(())))?;
    assert_eq!(json_of(&mut client, "")?["jobs"].as_array().map(Vec::len), Some(2));
    place.describe("[jobs.other]\nfrom = '../from/.'\nto = '../other'\nevery = '1s'\n")?;
    server.signal(Signal::HUP)?;
    until("the new job runs", || Ok(place.path("other/a.txt").exists().then_some(())))?;
    ask(&mut client, "GET", "/pull", None)?.expect_status(404)?;
    assert!(server.terminate()?.success());
    Ok(())
}

#[test]
fn a_job_is_previewed_started_and_stopped_by_the_api_and_that_is_written_down() -> Outcome {
    let jobs = "[jobs.some]\nfrom = '../from/{part}/.'\nto = '../to/{part}'\nvariables = { part = 'sub' }\non-success = [{ command = ['/bin/sh', '-c', 'echo $HOLDFAST_RUN >> ../steps'] }]\n\
                [jobs.slow]\nfrom = '../from/big'\nto = '../to'\nrate = '1M'\nactive = false\nretries = { count = 5, first = '1s' }\n";
    let place = Place::new(jobs)?;
    fs::create_dir(place.path("from/other"))?;
    fs::write(place.path("from/other/c.txt"), "ccc")?;
    fs::write(place.path("from/big"), random(64 * MIB))?;
    let server = place.serve()?;
    let mut client = server.client_of(NAME, PASSWORD);

    let preview = ask(&mut client, "POST", "/some/preview", Some(&json!({})))?.expect_status(200)?;
    let preview: Value = serde_json::from_slice(&preview.body)?;
    let files: Vec<_> =
        preview["acts"].as_array().ok_or("no acts")?.iter().filter(|act| act["what"] == "file").collect();
    assert!(
        files.len() == 1 && files[0]["path"].as_str().is_some_and(|path| path.ends_with("/to/sub/b.txt")),
        "{preview}"
    );
    assert!(preview["more"] == false && !place.path("to").exists(), "{preview}");

    let run = start(&mut client, "some", &json!({ "variables": { "part": "other" } }))?;
    let told = ended(&mut client, "some", run)?;
    assert_eq!(
        (told["result"].as_str(), told["by"].as_str(), told["trigger"].as_str()),
        (Some("succeeded"), Some(NAME), Some("api")),
        "{told}"
    );
    assert!(place.path("to/other/c.txt").exists() && !place.path("to/sub").exists());
    until("its step is done", || {
        Ok(fs::read_to_string(place.path("steps")).is_ok_and(|text| text == format!("{run}\n")).then_some(()))
    })?;

    // What is wrong is refused at once, with the reason.
    for (path, body, status) in [
        ("/some/runs", json!({ "variables": { "part": "../.." } }), 400),
        ("/some/runs", json!({ "variables": { "else": "x" } }), 400),
        ("/some/runs", json!({ "what": 1 }), 400),
        ("/some/preview", json!({ "names": ["../x"] }), 400),
        ("/none/runs", json!({}), 404),
        ("/none/preview", json!({}), 404),
        ("/some/runs/999999/stop", json!({}), 404),
        (&format!("/some/runs/{run}/stop"), json!({}), 409),
        (&format!("/slow/runs/{run}/stop"), json!({}), 404),
    ] {
        let answer = ask(&mut client, "POST", path, Some(&body))?;
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
    }

    // One that is under way is seen moving, and stops for good; one that waits behind it does not begin.
    let slow = start(&mut client, "slow", &json!({}))?;
    let live = until("it moves", || {
        let run = json_of(&mut client, &format!("/slow/runs/{slow}"))?;
        Ok((run["live"]["rate"].as_u64() > Some(0)).then_some(run))
    })?;
    assert_eq!(live["live"]["found_bytes"].as_u64(), Some(64 * MIB as u64), "{live}");
    assert!(live["live"]["moving"][0].as_str().is_some_and(|path| path.ends_with("/big")), "{live}");
    assert_eq!(json_of(&mut client, "/slow")?["state"], "running");
    let waiting = start(&mut client, "slow", &json!({}))?;
    for run in [waiting, slow] {
        ask(&mut client, "POST", &format!("/slow/runs/{run}/stop"), None)?.expect_status(202)?;
        assert_eq!(ended(&mut client, "slow", run)?["result"], "stopped");
    }
    sleep(Duration::from_secs(3));
    assert_eq!(runs(&mut client, "slow")?.len(), 2, "it is not tried again");

    let audit = client.send(&Request::with_target("GET", "/api/v1/admin/audit?action=job"))?.expect_status(200)?;
    let audit: Value = serde_json::from_slice(&audit.body)?;
    let has = |action: &str, object: &str| {
        let entries = audit["entries"].as_array().into_iter().flatten();
        entries
            .into_iter()
            .any(|it| it["action"] == action && it["object"] == object && it["result"] == "ok" && it["account"] == NAME)
    };
    assert!(
        has("job.start", "some") && has("job.preview", "some") && has("job.stop", &format!("slow/{slow}")),
        "{audit}"
    );
    Ok(())
}

#[test]
fn jobs_are_seen_and_started_by_administrators_alone() -> Outcome {
    let place = Place::new("[jobs.one]\nfrom = '../from/.'\nto = '../to'\n")?;
    let server = place.serve()?;
    server.options().add_account("ben", PASSWORD)?;
    let mut client = server.client_of("ben", PASSWORD);
    for (method, path) in [
        ("GET", ""),
        ("GET", "/one"),
        ("GET", "/one/runs"),
        ("GET", "/one/runs/1"),
        ("POST", "/one/runs"),
        ("POST", "/one/preview"),
        ("POST", "/one/runs/1/stop"),
    ] {
        let answer = ask(&mut client, method, path, (method == "POST").then_some(&json!({})))?;
        assert_eq!(answer.status, 403, "{method} {path}");
        assert_eq!(ask(&mut server.client(), method, path, None)?.status, 401, "{method} {path}");
    }
    // Without jobs a server says so, and one whose files are wrong does not start.
    let without = ServerOptions::new(place.path("other"));
    without.add_account(NAME, PASSWORD)?;
    make_administrator(&without)?;
    let other = without.clone().start()?;
    let mut client = other.client_of(NAME, PASSWORD);
    assert_eq!(json_of(&mut client, "")?["configured"], false);
    ask(&mut client, "GET", "/one", None)?.expect_status(404)?;
    drop(other);
    place.describe("[jobs.one]\nfrom = 7\n")?;
    let broken = without.environment("HOLDFAST_JOBS__FILES", &place.path("jobs/all.toml").display().to_string());
    assert!(broken.start().is_err_and(|error| error.to_string().contains("all.toml:2")));
    Ok(())
}

#[test]
fn a_server_that_is_killed_loses_no_run_and_doubles_none() -> Outcome {
    let jobs = "[jobs.often]\nfrom = '../from/.'\nto = '../to'\nevery = '1s'\n[jobs.big]\nfrom = '../big'\nto = '../far'\nrate = '4M'\n";
    let place = Place::new(jobs)?;
    let content = random(24 * MIB);
    fs::write(place.path("big"), &content)?;
    let mut server = place.serve()?;
    let run = start(&mut server.client_of(NAME, PASSWORD), "big", &json!({}))?;
    until("it is on its way", || Ok(has_part(&place.path("far"), 6 * MIB).then_some(())))?;
    server.kill_9()?;
    server = server.start_again()?;
    let mut client = server.client_of(NAME, PASSWORD);
    assert_eq!(ended(&mut client, "big", run)?["result"], "interrupted");
    let resumed = until("it goes on", || {
        let last = runs(&mut client, "big")?.remove(0);
        Ok((last["result"] == "succeeded").then_some(last))
    })?;
    assert_eq!((resumed["trigger"].as_str(), resumed["by"].as_str()), (Some("resume"), Some(NAME)), "{resumed}");
    assert!(resumed["done"]["moved_bytes"].as_u64() < Some(20 * MIB as u64), "from its blocks: {resumed}");
    assert!(fs::read(place.path("far/big"))? == content);

    // At whatever moment: what was asked for, and what was due, is run once.
    let mut rng = Prng::new(3);
    let mut asked = Vec::new();
    for _ in 0..knob("HOLDFAST_KILLS", 8) {
        asked.push(start(&mut server.client_of(NAME, PASSWORD), "often", &json!({}))?);
        sleep(Duration::from_millis(rng.next_u64() % 2_500));
        server.kill_9()?;
        server = server.start_again()?;
    }
    let mut client = server.client_of(NAME, PASSWORD);
    for run in asked {
        let told = ended(&mut client, "often", run)?;
        assert!(["succeeded", "interrupted"].map(Some).contains(&told["result"].as_str()), "{told}");
    }
    expect_each_once(&runs(&mut client, "often")?);
    assert!(server.terminate()?.success());
    Ok(())
}

#[test]
fn a_mail_with_the_secret_word_starts_a_job_once() -> Outcome {
    let server = Dovecot::start("")?;
    let secret = "correct-horse";
    let jobs = format!(
        "[sites.post]\naddress = '{}'\nca = '{}'\nlogin = {{ password-file = 'password' }}\n\
         [jobs.ordered]\nfrom = '../from/.'\nto = '../to'\nmailbox = {{ at = 'post:INBOX', every = '5s', from = 'boss@example.org', subject = '^bring it$', secret-file = 'secret' }}\n",
        server.url(""),
        server.authority().display()
    );
    let place = Place::new(&jobs)?;
    fs::write(place.path("jobs/password"), dovecot::PASSWORD)?;
    fs::write(place.path("jobs/secret"), format!("{secret}\n"))?;
    let put = |name: &str, from: &str, subject: &str| {
        let mail = format!("From: {from}\r\nTo: ann@example.org\r\nSubject: {subject}\r\n\r\nplease\r\n");
        server.put("", [(name.to_owned(), mail.as_bytes())], SystemTime::now())
    };
    put("1", "Somebody <else@example.org>", &format!("bring it {secret}"))?;
    put("2", "Boss <boss@example.org>", "bring it")?;
    put("3", "\"Boss, the\" <Boss@example.org>", &format!("{secret} bring it"))?;
    put("4", "boss@example.org", &format!("bring nothing {secret}"))?;
    let mut node = place.serve()?;
    let mut client = node.client_of(NAME, PASSWORD);
    let told = until("a mail starts it", || {
        Ok(runs(&mut client, "ordered")?.into_iter().find(|run| run["result"] == "succeeded"))
    })?;
    assert!(
        told["trigger"] == "mail" && told["by"].as_str().is_some_and(|by| by.starts_with("boss@example.org ")),
        "{told}"
    );
    assert!(place.path("to/a.txt").exists());
    let all_seen = |count: usize| {
        until("all mails are seen", || {
            let mails = server.messages("")?;
            let seen = mails
                .iter()
                .filter(|name| name.rsplit_once(":2,").is_some_and(|(_, flags)| flags.contains('S')))
                .count();
            Ok((mails.len() == count && seen == count).then_some(()))
        })
    };
    all_seen(4)?;
    assert_eq!(runs(&mut client, "ordered")?.len(), 1, "the others start nothing");

    // Killed at whatever moment, each mail starts it once.
    let mut rng = Prng::new(5);
    let rounds = knob("HOLDFAST_KILLS", 4);
    for round in 0..rounds {
        put(&format!("more{round}"), "boss@example.org", &format!("bring it {secret}"))?;
        sleep(Duration::from_millis(rng.next_u64() % 6_000));
        node.kill_9()?;
        node = node.start_again()?;
    }
    all_seen(4 + rounds)?;
    let mut client = node.client_of(NAME, PASSWORD);
    let by_mail = until("all have ended", || {
        let all = runs(&mut client, "ordered")?;
        let by_mail: Vec<_> = all.iter().filter(|run| run["trigger"] == "mail").cloned().collect();
        Ok((by_mail.len() > rounds && all.iter().all(|run| run["result"].is_string())).then_some(by_mail))
    })?;
    assert_eq!(by_mail.len(), 1 + rounds, "{by_mail:#?}");
    assert!(!node.log().contains(secret), "the log tells the secret");
    assert!(node.terminate()?.success());
    Ok(())
}

#[test]
fn one_of_two_nodes_runs_the_jobs_and_the_other_goes_on_when_it_is_gone() -> Outcome {
    let place = Place::new("[jobs.often]\nfrom = '../from/.'\nto = '../to'\nevery = '1s'\n")?;
    let jobs = ("HOLDFAST_JOBS__FILES", place.path("jobs").display().to_string());
    let mut cluster = Cluster::with(Engines { postgres: true, store: Store::Fs }, 2, &[jobs])?;
    make_administrator(cluster.nodes[0].options())?;
    let mut clients = cluster.clients(PASSWORD);
    let holder = until("a node has them", || Ok(json_of(&mut clients[0], "")?["runner"].as_str().map(str::to_owned)))?;
    let (has, other) = if holder == "node0" { (0, 1) } else { (1, 0) };
    // Whichever node is asked.
    let run = start(&mut clients[other], "often", &json!({}))?;
    assert_eq!(ended(&mut clients[has], "often", run)?["result"], "succeeded");
    until("it has run", || Ok((runs(&mut clients[other], "often")?.len() > 5).then_some(())))?;
    // One that sleeps loses them, and changes nothing when it wakes.
    cluster.nodes[has].signal(Signal::STOP)?;
    until("the other has them", || {
        Ok((json_of(&mut clients[other], "")?["runner"] == format!("node{other}")).then_some(()))
    })?;
    let before = runs(&mut clients[other], "often")?.len();
    until("it runs them", || Ok((runs(&mut clients[other], "often")?.len() > before + 3).then_some(())))?;
    cluster.nodes[has].signal(Signal::CONT)?;
    sleep(Duration::from_secs(5));
    expect_each_once(&runs(&mut clients[other], "often")?);
    // One that is killed leaves them.
    let asked = start(&mut clients[has], "often", &json!({}))?;
    cluster.nodes[other].kill_9()?;
    until("it has them again", || {
        Ok((json_of(&mut clients[has], "")?["runner"] == format!("node{has}")).then_some(()))
    })?;
    ended(&mut clients[has], "often", asked)?;
    let before = runs(&mut clients[has], "often")?.len();
    until("it runs them", || Ok((runs(&mut clients[has], "often")?.len() > before + 3).then_some(())))?;
    expect_each_once(&runs(&mut clients[has], "often")?);
    assert!(cluster.nodes[has].terminate()?.success());
    Ok(())
}
