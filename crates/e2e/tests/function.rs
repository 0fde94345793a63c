//! Functions through the built program: from the command line, as the account that runs the tests and, where that is root, as an ordinary one; and through a server.

#[path = "function/ground.rs"]
mod ground;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use ground::{Ground, SOON, as_each, files, text, until};
use holdfast_e2e::Outcome;
use holdfast_e2e::rig::{NAME, PASSWORD};
use holdfast_e2e::wait::Over;
use holdfast_testkit::alone::{alone, mounts};
use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::{ServerOptions, TestServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Another account of the drive, which no function names.
const STRANGER: &str = "sam";
/// One that functions name.
const FRIEND: &str = "ben";

#[test]
fn a_folder_is_deployed_called_listed_looked_at_and_removed() -> Outcome {
    as_each(|ground| {
        ground.deploy(
            "greet",
            "read -r who; echo hello $who; echo greeted >&2; id -u >&2; ls /root /home",
            "[limits]\nkept = 100\n",
        )?;
        let output = ground.fed(&["invoke", "greet", "--input", "-"], b"ann\n")?;
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), "hello ann\n"), "{output:?}");
        let log = text(&output.stderr);
        assert!(
            log.contains("greeted") && log.contains("'/root'") && log.contains("holdfast: greet: exit code 2"),
            "{log}"
        );
        ground.deploy("greet", "read -r who; echo hello $who; echo greeted >&2", "")?;
        fs::write(ground.path("input"), "ben\n")?;
        let input = ground.path("input").display().to_string();
        let called = ground.json(&["invoke", "greet", "--input", &input])?;
        assert_eq!(
            (&called["ok"], &called["cold"], &called["output"]),
            (&true.into(), &true.into(), &"aGVsbG8gYmVuCg==".into())
        );
        let id = called["id"].as_str().ok_or("no id")?;
        assert_eq!(ground.ok(&["logs", "greet", "--id", id, "--output"])?, "hello ben\n");
        let shown = ground.ok(&["logs", "greet"])?;
        assert!(shown.contains(id) && shown.contains("exit code 2") && shown.contains("    greeted"), "{shown}");
        let all = ground.json(&["logs", "greet"])?;
        assert_eq!(all.as_array().map(Vec::len), Some(2));
        let listed = ground.json(&["list"])?;
        assert_eq!((&listed[0]["name"], &listed[0]["limits"]["seconds"]), (&"greet".into(), &30.into()));
        assert!(ground.ok(&["list"])?.contains("greet"));
        ground.ok(&["remove", "greet"])?;
        for arguments in [["remove", "greet"], ["invoke", "greet"], ["logs", "greet"]] {
            assert_eq!(ground.run(&arguments)?.status.code(), Some(66), "{arguments:?}");
        }
        assert_eq!(ground.json(&["list"])?, Value::Array(Vec::new()));
        // The lock, and the folder for what is set aside.
        assert_eq!(files(&ground.path("store")), 2);
        Ok(())
    })
}

#[test]
fn mistakes_and_limits_have_codes_and_words_of_their_own() -> Outcome {
    as_each(|ground| {
        let refused = |manifest: &str, why: &str| -> Outcome {
            let source = ground.source("bad", "true", manifest)?;
            let output = ground.run(&["deploy", &source])?;
            assert_eq!(output.status.code(), Some(64), "{output:?}");
            assert!(text(&output.stderr).contains(why), "{output:?}");
            Ok(())
        };
        refused(
            "[limit]\nseconds = 1\n",
            "function.toml:3:2: \"limit\" is no key of a function; did you mean \"limits\"?",
        )?;
        refused("[limits]\nwarm = 1000\n", "function.toml:4:8: `warm` is from 0 to 64")?;
        ground.deploy("small", "cat", "[limits]\ninput = 10\n")?;
        let large = ground.fed(&["invoke", "small", "--input", "-"], b"more than ten")?;
        assert_eq!((large.status.code(), large.stdout.as_slice()), (Some(64), &b""[..]), "{large:?}");
        assert_eq!(ground.run(&["invoke", "no name"])?.status.code(), Some(64));
        ground.deploy("slow", "sleep 1000", "[limits]\nseconds = 1\n")?;
        let slow = ground.run(&["invoke", "slow"])?;
        assert_eq!(slow.status.code(), Some(1));
        assert!(text(&slow.stderr).contains("longer than 1 s"), "{slow:?}");
        assert_eq!(ground.processes(), 0);
        Ok(())
    })
}

#[test]
fn calls_are_refused_over_their_number_end_with_a_signal_and_die_with_whoever_made_them() -> Outcome {
    as_each(|ground| {
        let shared = ground.path("shared").display().to_string();
        ground.deploy(
            "stays",
            &format!("echo > {shared}/here; while :; do sleep 1000; done"),
            "[limits]\nconcurrency = 1\n",
        )?;
        let begin = || -> Outcome<Child> {
            let child = ground.command(&["invoke", "stays"]).spawn()?;
            until("the program", || Ok(ground.path("shared/here").exists()))?;
            fs::remove_file(ground.path("shared/here"))?;
            Ok(child)
        };
        let child = begin()?;
        let refused = ground.run(&["invoke", "stays"])?;
        assert_eq!(refused.status.code(), Some(69), "{refused:?}");
        kill_process(Pid::from_child(&child), Signal::TERM)?;
        let ended = child.wait_with_output()?;
        assert_eq!(ended.status.code(), Some(143), "{ended:?}");
        assert_eq!(ground.processes(), 0);
        let mut child = begin()?;
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(9));
        until("its end", || Ok(ground.processes() == 0))?;
        // Its place is free again.
        let mut child = begin()?;
        kill_process(Pid::from_child(&child), Signal::INT)?;
        assert_eq!(child.wait()?.code(), Some(130));
        let all = ground.json(&["logs", "stays"])?;
        assert_eq!(all.as_array().map(Vec::len), Some(2), "the one that was killed is not there: {all}");
        Ok(())
    })
}

#[test]
fn who_follows_sees_calls_as_they_end() -> Outcome {
    as_each(|ground| {
        ground.deploy("talks", "cat >&2", "")?;
        let mut following = ground.command(&["logs", "talks", "--follow", "--json"]).spawn()?;
        ground.fed(&["invoke", "talks", "--input", "-"], b"first")?;
        let mut lines = BufReader::new(following.stdout.take().ok_or("no output")?).lines();
        let mut next = || -> Outcome<Value> { Ok(serde_json::from_str(&lines.next().ok_or("an end")??)?) };
        assert_eq!(next()?["log"], "first");
        for said in ["second", "third"] {
            ground.fed(&["invoke", "talks", "--input", "-"], said.as_bytes())?;
            assert_eq!(next()?["log"], said);
        }
        ground.ok(&["remove", "talks"])?;
        assert!(following.wait()?.success(), "it ends with the function");
        Ok(())
    })
}

#[test]
fn many_calls_from_the_command_line_leave_nothing() -> Outcome {
    const CALLS: usize = 192;
    if !alone("many_calls_from_the_command_line_leave_nothing")? {
        return Ok(());
    }
    as_each(|ground| {
        ground.deploy("f", "exec cat", "[limits]\nconcurrency = 16\n")?;
        ground.ok(&["invoke", "f"])?;
        let before = mounts();
        std::thread::scope(|scope| {
            for lane in 0..16 {
                scope.spawn(move || {
                    for number in (lane..CALLS).step_by(16) {
                        let said = number.to_string();
                        let output = ground.fed(&["invoke", "f", "--input", "-"], said.as_bytes()).expect("a call");
                        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), said), "{output:?}");
                    }
                });
            }
        });
        assert_eq!((ground.processes(), mounts()), (0, before));
        assert_eq!(ground.json(&["logs", "f", "--limit", "20000"])?.as_array().map(Vec::len), Some(CALLS + 1));
        // Places and records.
        assert!(fs::read_dir(ground.path("store/f/places"))?.count() <= 16);
        assert_eq!(fs::read_dir(ground.path("store/f/calls"))?.count(), 2);
        Ok(())
    })
}

/// A drive with an administrator and two accounts, whose server calls the functions of a ground.
fn serve(ground: &Ground) -> Outcome<TestServer> {
    let options = ServerOptions::new(ground.path("data")).environment("HOLDFAST_FUNCTIONS__FOLDER", &ground.store());
    for name in [NAME, STRANGER, FRIEND] {
        options.add_account(name, PASSWORD)?;
    }
    options.run_ok(&["account", "admin", NAME, "true"], b"")?;
    Ok(options.start()?)
}

fn get(client: &mut Client, path: &str) -> Outcome<Value> {
    let response = client.send(&Request::with_target("GET", &format!("/api/v1/functions{path}")))?;
    Ok(serde_json::from_slice(&response.expect_status(200)?.body)?)
}

fn invoke(client: &mut Client, name: &str, input: &[u8]) -> Outcome<Response> {
    Ok(client.send(&Request::with_target("POST", &format!("/api/v1/functions/{name}/invoke")).body(input))?)
}

/// What the server says of one.
fn state(client: &mut Client, name: &str) -> Outcome<Value> {
    let all = get(client, "")?;
    let found = all["functions"].as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
    Ok(found.cloned().unwrap_or_default())
}

#[test]
fn a_server_calls_functions_for_those_who_may() -> Outcome {
    let ground = Ground::new(false)?;
    ground.deploy(
        "open",
        "cat; echo noted >&2",
        &format!("invoke = [\"{FRIEND}\"]\n[limits]\nwarm = 1\ninput = 1000\n"),
    )?;
    ground.deploy("fails", "echo why >&2; exit 3", "")?;
    ground.deploy("slow", "sleep 1000", "[limits]\nseconds = 1\n")?;
    let server = serve(&ground)?;
    let (mut admin, mut friend) = (server.client_of(NAME, PASSWORD), server.client_of(FRIEND, PASSWORD));
    let mut stranger = server.client_of(STRANGER, PASSWORD);
    until("one that is ready", || Ok(state(&mut admin, "open")?["ready"] == 1))?;
    let answer = invoke(&mut friend, "open", b"hello")?.expect_status(200)?;
    assert_eq!((answer.body.as_slice(), answer.header("holdfast-start")), (&b"hello"[..], Some("warm")));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    let id = answer.header("holdfast-call").ok_or("no id")?.to_owned();
    // Who may not does not learn that there is one.
    for name in ["fails", "none"] {
        invoke(&mut friend, name, b"")?.expect_status(404)?;
        invoke(&mut stranger, "open", b"")?.expect_status(404)?;
    }
    assert_eq!(get(&mut friend, "")?["functions"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(&mut stranger, "")?["functions"].as_array().map(Vec::len), Some(0));
    assert_eq!(get(&mut admin, "")?["functions"].as_array().map(Vec::len), Some(3));
    for path in ["/open/calls", &format!("/open/calls/{id}")] {
        friend.send(&Request::with_target("GET", &format!("/api/v1/functions{path}")))?.expect_status(403)?;
    }
    let call = get(&mut admin, &format!("/open/calls/{id}"))?;
    assert_eq!((&call["by"], &call["log"], &call["output"]), (&FRIEND.into(), &"noted\n".into(), &"aGVsbG8=".into()));
    Client::new(server.address())
        .send(&Request::with_target("POST", "/api/v1/functions/open/invoke"))?
        .expect_status(401)?;

    let failed = invoke(&mut admin, "fails", b"")?.expect_status(502)?;
    let id = failed.header("holdfast-call").ok_or("no id")?.to_owned();
    assert!(failed.text().contains("exit code 3"), "{}", failed.text());
    assert_eq!(get(&mut admin, &format!("/fails/calls/{id}"))?["log"], "why\n");
    assert_eq!(get(&mut admin, "/fails/calls?limit=5")?["calls"][0]["exit"], 3);
    invoke(&mut admin, "slow", b"")?.expect_status(504)?;
    invoke(&mut admin, "No Name".replace(' ', "%20").as_str(), b"")?.expect_status(400)?;
    invoke(&mut admin, "open", &[7; 1001])?.expect_status(413)?;
    // Without a length beforehand, in chunks.
    let authorization = admin.authorization().ok_or("no account")?.to_owned();
    let mut raw = admin.raw()?;
    let head = format!(
        "POST /api/v1/functions/open/invoke HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    raw.write(head.as_bytes())?;
    raw.write(format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001)).as_bytes())?;
    raw.read()?.expect_status(413)?;
    let noted = admin.send(&Request::with_target("GET", "/api/v1/admin/audit?action=function.invoke"))?;
    assert!(noted.expect_status(200)?.text().contains("function.invoke"));
    Ok(())
}

#[test]
fn who_hangs_up_ends_a_call_that_has_not_all_of_its_input() -> Outcome {
    let ground = Ground::new(false)?;
    let shared = ground.path("shared").display().to_string();
    ground.deploy("whole", &format!("cat > /dev/null; echo > {shared}/all"), "")?;
    let server = serve(&ground)?;
    let mut admin = server.client_of(NAME, PASSWORD);
    let authorization = admin.authorization().ok_or("no account")?.to_owned();
    let mut raw = admin.raw()?;
    let head = format!(
        "POST /api/v1/functions/whole/invoke HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nContent-Length: 100\r\n\r\na part"
    );
    raw.write(head.as_bytes())?;
    until("the call", || Ok(state(&mut admin, "whole")?["running"] == 1))?;
    drop(raw);
    until("its end", || Ok(state(&mut admin, "whole")?["running"] == 0))?;
    let call = get(&mut admin, "/whole/calls")?["calls"][0].clone();
    assert!(call["end"].as_str().is_some_and(|end| end.contains("the input broke off")), "{call}");
    assert!(!ground.path("shared/all").exists());
    assert_eq!(ground.processes(), 0);
    Ok(())
}

#[test]
fn over_the_queue_the_next_is_told_to_come_back() -> Outcome {
    let ground = Ground::new(false)?;
    let shared = ground.path("shared").display().to_string();
    let script = format!("while [ ! -e {shared}/open ]; do sleep 0.01; done");
    ground.deploy("narrow", &script, "[limits]\nconcurrency = 1\nwaiting = 1\n")?;
    let server = serve(&ground)?;
    let mut admin = server.client_of(NAME, PASSWORD);
    std::thread::scope(|scope| -> Outcome {
        let call = || {
            let mut client = server.client_of(NAME, PASSWORD);
            scope.spawn(move || {
                invoke(&mut client, "narrow", b"").map(|answer| answer.status).map_err(|error| error.to_string())
            })
        };
        let running = call();
        until("one under way", || Ok(state(&mut admin, "narrow")?["running"] == 1))?;
        let waiting = call();
        until("one that waits", || Ok(state(&mut admin, "narrow")?["waiting"] == 1))?;
        let refused = invoke(&mut admin, "narrow", b"")?.expect_status(429)?;
        assert_eq!(refused.header("retry-after"), Some("1"));
        fs::write(ground.path("shared/open"), "")?;
        for call in [running, waiting] {
            assert_eq!(call.join().map_err(|_| "a panic")??, 200);
        }
        Ok(())
    })
}

#[test]
fn nothing_survives_a_server_that_is_killed_or_stopped() -> Outcome {
    let ground = Ground::new(false)?;
    ground.deploy("waits", "read -r line; echo $line", "[limits]\nwarm = 3\n")?;
    ground.deploy("stays", "trap '' TERM HUP INT; while :; do sleep 1000; done", "")?;
    let mut server = serve(&ground)?;
    for killed in [true, false] {
        let mut admin = server.client_of(NAME, PASSWORD);
        until("those that are ready", || Ok(state(&mut admin, "waits")?["ready"] == 3))?;
        let mut client = server.client_of(NAME, PASSWORD);
        let calling = std::thread::spawn(move || {
            invoke(&mut client, "stays", b"").map(|answer| answer.status).map_err(|error| error.to_string())
        });
        until("a call", || Ok(state(&mut admin, "stays")?["running"] == 1))?;
        until("its program", || Ok(ground.processes() >= 4))?;
        if killed {
            server.kill_9()?;
        } else {
            drop(admin);
            server.signal(Signal::TERM)?;
            server.wait()?;
        }
        until("the end of all", || Ok(ground.processes() == 0))?;
        drop(calling.join());
        if killed {
            server = server.start_again()?;
        }
    }
    Ok(())
}

#[test]
fn a_thousand_calls_through_a_server_at_sixteen_leave_nothing() -> Outcome {
    const CALLS: usize = 1_000;
    if !alone("a_thousand_calls_through_a_server_at_sixteen_leave_nothing")? {
        return Ok(());
    }
    let ground = Ground::new(false)?;
    ground.deploy("f", "exec cat", "[limits]\nconcurrency = 16\nwarm = 4\n")?;
    let server = serve(&ground)?;
    let mut admin = server.client_of(NAME, PASSWORD);
    let proc = PathBuf::from(format!("/proc/{}", server.pid()));
    let descriptors = || -> Vec<String> {
        let all = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        let named = all.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()));
        // The catalogue opens more of its readers when it needs them.
        named.filter(|name| !name.contains("/catalogue.db")).collect()
    };
    let round = |calls: usize| {
        std::thread::scope(|scope| {
            for lane in 0..16 {
                let mut client = server.client_of(NAME, PASSWORD);
                scope.spawn(move || {
                    for number in (lane..calls).step_by(16) {
                        let said = number.to_string().repeat(1 + number % 500);
                        let answer = invoke(&mut client, "f", said.as_bytes()).expect("an answer");
                        assert_eq!((answer.status, text(&answer.body)), (200, said));
                    }
                });
            }
        });
    };
    let settled = |admin: &mut Client| until("those that are ready", || Ok(state(admin, "f")?["ready"] == 4));
    // Threads, connections and buffers are there before it is counted.
    round(64);
    settled(&mut admin)?;
    let there = || (ground.processes(), mounts(), files(&ground.path("store")));
    // What ended is not at once away, and what is ready may not yet run its program.
    let (mut before, mut since) = (there(), Instant::now());
    until("a second in which nothing comes or goes", || {
        let now = there();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        Ok(since.elapsed() > Duration::from_secs(1))
    })?;
    let (descriptors_before, memory_before) = (descriptors(), server.rss()?);
    round(CALLS);
    settled(&mut admin)?;
    until("what was there before", || Ok(there() == before))?;
    // Connections of clients that went are closed a moment later.
    let deadline = Instant::now() + SOON;
    while descriptors().len() > descriptors_before.len() {
        assert!(Instant::now() < deadline, "{:?}\n{:?}", descriptors(), descriptors_before);
        std::thread::sleep(Duration::from_millis(10));
    }
    let grown = server.rss()?.saturating_sub(memory_before);
    assert!(grown < 32 << 20, "{grown} bytes more");
    let calls = get(&mut admin, "/f/calls?limit=1000")?;
    assert!(
        calls["calls"].as_array().is_some_and(|all| all.len() == CALLS && all.iter().all(|call| call["ok"] == true))
    );
    Ok(())
}

#[test]
fn deploying_under_load_never_shows_a_mixture() -> Outcome {
    let ground = Ground::new(false)?;
    ground.deploy("f", "cat a b", "[limits]\nconcurrency = 8\n")?;
    let source = ground.path("sources/f");
    let server = serve(&ground)?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        let _over = Over(&stop);
        for _ in 0..2 {
            let mut client = server.client_of(NAME, PASSWORD);
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Acquire) {
                    let answer = invoke(&mut client, "f", b"").expect("an answer");
                    let said = text(&answer.body);
                    // The first version has neither file.
                    let half = said.len() / 2;
                    assert!(answer.status == 502 || said[..half] == said[half..], "{} {said}", answer.status);
                }
            });
        }
        for number in 0..10 {
            for part in ["a", "b"] {
                fs::write(source.join(part), format!("{number}"))?;
            }
            ground.ok(&["deploy", &source.display().to_string()])?;
        }
        Ok(())
    })?;
    let answer = invoke(&mut server.client_of(NAME, PASSWORD), "f", b"")?.expect_status(200)?;
    assert_eq!(text(&answer.body), "99");
    Ok(())
}
