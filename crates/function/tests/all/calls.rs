//! Single calls: streams, confinement, limits.

use crate::support::{Ground, alone, block_on, invoke, named, text, until};
use holdfast_base::ErrorKind;
use holdfast_function::{Call, Deployed, End, Held, Reached, invoke_alone};
use std::fs;
use std::io;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

#[test]
fn input_output_log_and_record_are_those_of_the_call() {
    let ground = Ground::new();
    let deployed = ground.deploy("echo", "cat; echo noted >&2; echo $HOLDFAST_FUNCTION; pwd; ls", "", "");
    let call = ground.call("echo", b"hello\n");
    assert_eq!(call.end, End::Done, "{}", text(&call.log));
    assert_eq!(text(&call.output), "hello\necho\n/function\nfunction.toml\nhandler\npolicy.toml\n");
    assert_eq!((text(&call.log).as_str(), call.input_bytes, call.cold), ("noted\n", 6, true));
    let record = ground.function("echo").records().one(call.id).expect("kept");
    assert_eq!((record.version.clone(), record.log.as_str()), (deployed.version.to_string(), "noted\n"));
    assert_eq!(record.output().as_deref(), Some(&call.output[..]));
    assert!(record.ok && record.cold && record.ran_us > 0);
}

#[test]
fn a_call_sees_what_its_policy_names_and_changes_neither_its_code_nor_the_next_call() {
    let ground = Ground::new();
    for folder in ["shared", "hidden"] {
        fs::create_dir(ground.path(folder)).expect("a folder");
        fs::write(ground.path(folder).join("file"), folder).expect("a file");
    }
    let (shared, hidden) = (ground.path("shared"), ground.path("hidden"));
    let script = format!(
        "cat {0}/file; echo kept > {0}/out; cat {1}/file; echo x > /function/handler; echo x > /tmp/x; set -- /proc/[0-9]*; echo $#; ls /root",
        shared.display(),
        hidden.display()
    );
    ground.deploy("see", &script, "", &format!("\"{}\" = \"all\"\n", shared.display()));
    for _ in 0..2 {
        let call = ground.call("see", b"");
        let (output, log) = (text(&call.output), text(&call.log));
        // The shell, which counts by itself, and init.
        assert_eq!(output, "shared2\n", "{log}");
        for refused in ["hidden/file", "/function/handler: Read-only", "/tmp/x", "'/root'"] {
            assert!(log.contains(refused), "{refused}: {log}");
        }
        assert_eq!(call.end, End::Exit(2), "{log}");
    }
    assert_eq!(fs::read_to_string(shared.join("out")).expect("written"), "kept\n");
}

#[test]
fn every_way_to_end_is_told_and_kept() {
    let ground = Ground::new();
    for (name, script, end) in [
        ("fails", "echo why >&2; exit 3", End::Exit(3)),
        ("signalled", "kill -9 $$", End::Signal(9)),
        ("slow", "exec sleep 1000", End::Reached(Reached::Seconds(1))),
        ("deaf", "trap '' TERM INT HUP; while :; do sleep 1000; done", End::Reached(Reached::Seconds(1))),
        ("loud", "exec cat /dev/zero", End::Reached(Reached::Output(1_000))),
        ("burns", "while :; do :; done", End::Reached(Reached::Cpu)),
    ] {
        let (seconds, cpu) = if name == "burns" { (60, 1) } else { (1, 100) };
        let manifest = format!("[limits]\nseconds = {seconds}\noutput = 1000\n");
        let policy = format!("\n[limits]\nprocess-cpu-seconds = {cpu}\n");
        let source = ground.source(name, script, &manifest, &policy);
        let rules = fs::read_to_string(source.join("policy.toml")).expect("there");
        fs::write(source.join("policy.toml"), rules.replace("\"null\"", "\"null\", \"zero\"")).expect("written");
        ground.store.deploy(&source, None).expect("deployed");
        let call = ground.call(name, b"");
        // Which of several the kernel sends is its own affair.
        assert_eq!(call.end, end, "{name}: {}", text(&call.log));
        let record = ground.function(name).records().one(call.id).expect("kept");
        assert_eq!((record.ok, record.end, record.output), (false, end.to_string(), None), "{name}");
    }
}

#[test]
fn memory_processes_and_files_are_bounded() {
    let ground = Ground::new();
    let policy = "\n[limits]\nprocess-memory = \"100M\"\nprocesses = 20\nfile-size = \"1K\"\n";
    let script = "head -c 200000000 /dev/zero | tail -c 150000000 > /dev/null || echo no memory\n\
         i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait";
    let source = ground.source("bounded", script, "[limits]\nseconds = 20\n", policy);
    let rules = fs::read_to_string(source.join("policy.toml")).expect("there");
    fs::write(source.join("policy.toml"), rules.replace("\"null\"", "\"null\", \"zero\"")).expect("written");
    if let Err(error) = ground.store.deploy(&source, None) {
        // For root it takes one.
        assert!(error.message().contains("control group"), "{error}");
        return;
    }
    let call = ground.call("bounded", b"");
    let (output, log) = (text(&call.output), text(&call.log));
    assert_eq!(output, "no memory\n", "{log}");
    // The shell gives up when it cannot fork.
    assert!(log.to_lowercase().contains("fork"), "{log}");
    assert!(matches!(call.end, End::Exit(2)), "{:?} {log}", call.end);
}

#[test]
fn memory_of_all_processes_together_is_bounded_or_nothing_is_deployed() {
    let ground = Ground::new();
    let script = "i=0; while [ $i -lt 10 ]; do head -c 20000000 /dev/zero | tail -c 20000000 | (read -r x; sleep 1000) & i=$((i+1)); done; wait";
    let source = ground.source("many", script, "[limits]\nseconds = 20\n", "\n[limits]\nmemory = \"100M\"\n");
    let rules = fs::read_to_string(source.join("policy.toml")).expect("there");
    fs::write(source.join("policy.toml"), rules.replace("\"null\"", "\"null\", \"zero\"")).expect("written");
    match ground.store.deploy(&source, None) {
        Ok(_) => {
            let call = ground.call("many", b"");
            assert_eq!(call.end, End::Reached(Reached::Memory), "{}", text(&call.log));
        }
        Err(error) => {
            assert!(error.message().contains("memory: ") && error.message().contains("control group"), "{error}");
        }
    }
}

/// A function that reads what its policy lets it, and names what it does not.
fn looks(ground: &Ground, manifest: &str, policy: &str) -> Deployed {
    fs::create_dir(ground.path("data")).expect("a folder");
    for name in ["a.log", "b.txt"] {
        fs::write(ground.path("data").join(name), format!("{name}\n")).expect("written");
    }
    let at = ground.path("data").display().to_string();
    let script = format!(
        "read -r line; echo $line $HOLDFAST_FUNCTION; pwd; ls; cat {at}/a.log; cat {at}/b.txt; echo x > /function/new; ls /root"
    );
    ground.deploy("looks", &script, manifest, &policy.replace("DATA", &at))
}

/// What it says and does not, cold and, where instances are kept ready, warm.
fn sees_one(ground: &Ground, refused: &[&str]) {
    let check = |call: Call, cold: bool| {
        let (output, log) = (text(&call.output), text(&call.log));
        assert_eq!(call.cold, cold);
        assert_eq!(output, "go looks\n/function\nfunction.toml\nhandler\npolicy.toml\na.log\n", "{log}");
        assert!(refused.iter().all(|one| log.contains(one)), "{log}");
    };
    check(ground.call("looks", b"go\n"), true);
    block_on(async {
        let host = ground.host();
        check(invoke(&host, "looks", b"go\n").await.expect("a call"), true);
        for _ in 0..3 {
            until("one that is ready", || host.state(&named("looks")).ready == 1).await;
            check(invoke(&host, "looks", b"go\n").await.expect("a call"), false);
        }
        host.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_policy_that_takes_a_broker_is_held_cold_and_warm() {
    let ground = Ground::new();
    let rule = "\n[[rule]]\nallow = \"read\"\npath = \"DATA/*.log\"\n";
    let deployed = looks(&ground, "[limits]\nwarm = 1\n", rule);
    assert_eq!(deployed.held, Held::Broker);
    sees_one(&ground, &["b.txt: Permission denied", "/function/new: Permission denied", "/root"]);
}

#[test]
fn a_policy_that_takes_gates_is_held_cold_and_warm() {
    if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        // Then it is refused when it is deployed, as a policy of `holdfast run` is when it is started.
        return;
    }
    let ground = Ground::new();
    let rule = "\"DATA\" = \"read\"\n[[rule]]\ndeny = [\"read\"]\nfile = \"DATA/b.txt\"\narguments = { offset = 0 }\n";
    let deployed = looks(&ground, "[limits]\nwarm = 1\n", rule);
    assert_eq!(deployed.held, Held::Gates(vec![fs::canonicalize(ground.path("data")).expect("there")]));
    sees_one(&ground, &["b.txt: Permission denied", "/function/new: Read-only", "/root"]);
}

#[test]
fn a_log_is_cut_and_an_output_that_is_not_kept_is_told_all_the_same() {
    let ground = Ground::new();
    let script = "i=0; while [ $i -lt 10000 ]; do echo 0123456789 >&2; i=$((i+1)); done; echo 0123456789";
    ground.deploy("long", script, "[limits]\nlog = 100\nkept = 10\n", "");
    let call = ground.call("long", b"");
    assert_eq!((call.end.clone(), call.log.len(), call.log_cut), (End::Done, 100, true));
    assert_eq!(call.output, b"0123456789\n");
    let record = ground.function("long").records().one(call.id).expect("kept");
    assert_eq!((record.output, record.output_bytes, record.log_cut), (None, 11, true));
}

/// Input of which a part comes, and then an error.
struct Breaks(bool);

impl AsyncRead for Breaks {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(Err(io::Error::other("they hung up")));
        }
        buffer.put_slice(b"a part\n");
        Poll::Ready(Ok(()))
    }
}

#[test]
fn input_that_breaks_off_or_is_too_large_is_never_taken_for_the_whole() {
    let ground = Ground::new();
    fs::create_dir(ground.path("seen")).expect("a folder");
    let seen = ground.path("seen/all");
    let script = format!("all=$(cat); echo \"$all\" > {}", seen.display());
    let policy = format!("\"{}\" = \"all\"\n", ground.path("seen").display());
    ground.deploy("whole", &script, "[limits]\ninput = 20\n", &policy);
    let function = ground.function("whole");
    let (_stop, stopped) = watch::channel(false);
    let broken =
        block_on(async { invoke_alone(function.clone(), &mut Breaks(false), stopped.clone()).await.expect("a call") });
    assert!(matches!(&broken.end, End::InputBroken(why) if why.contains("hung up")), "{:?}", broken.end);
    let large = ground.call("whole", b"123456789012345678901");
    assert_eq!(large.end, End::InputTooLarge(20));
    assert!(!seen.exists(), "it was told that a part was all");
    assert_eq!(ground.call("whole", b"12345678901234567890").end, End::Done);
    assert!(seen.exists());
}

static LARGE: [u8; 5 << 20] = [7; 5 << 20];

#[test]
fn a_program_that_does_not_want_its_input_is_not_waited_for() {
    let ground = Ground::new();
    ground.deploy("uninterested", "exec 0<&-; echo done", "[limits]\ninput = \"10M\"\n", "");
    let call = ground.call("uninterested", &LARGE);
    assert_eq!((call.end, text(&call.output).as_str()), (End::Done, "done\n"));
}

#[test]
fn what_cannot_be_started_is_told_and_kept() {
    let ground = Ground::new();
    let source = ground.source("missing", "true", "", "");
    fs::write(source.join("function.toml"), "command = \"./not-there\"\npolicy = \"policy.toml\"\n").expect("written");
    ground.store.deploy(&source, None).expect("deployed");
    let call = ground.call("missing", b"");
    assert!(
        matches!(&call.end, End::NotStarted(_, why) if why.contains("not-there") || why.contains("execut")),
        "{:?}",
        call.end
    );
    assert!(!ground.function("missing").records().one(call.id).expect("kept").ok);
}

#[test]
fn calls_from_many_processes_have_as_many_places_as_the_function_allows() {
    let ground = Ground::new();
    fs::create_dir(ground.path("gate")).expect("a folder");
    let gate = ground.path("gate");
    let script = format!("echo > {0}/$$-$(cat); while [ ! -e {0}/open ]; do sleep 0.01; done", gate.display());
    ground.deploy("narrow", &script, "[limits]\nconcurrency = 2\n", &format!("\"{}\" = \"all\"\n", gate.display()));
    let function = ground.function("narrow");
    // What this process starts meanwhile has copies of the places until it begins.
    let ended = Arc::new(AtomicBool::new(false));
    let starting: Vec<_> = (0..4).map(|_| std::thread::spawn(starts(ended.clone()))).collect();
    block_on(async {
        let calls: Vec<_> = [&b"a"[..], b"b"]
            .into_iter()
            .map(|input| {
                let function = function.clone();
                tokio::spawn(async move { alone(&function, input).await })
            })
            .collect();
        crate::support::until("both", || fs::read_dir(&gate).expect("there").count() == 2).await;
        let refused = alone(&function, b"").await.expect_err("no place");
        assert!(matches!(refused.kind(), ErrorKind::TooManyRequests { .. }), "{refused}");
        fs::write(gate.join("open"), "").expect("opens");
        for call in calls {
            assert_eq!(call.await.expect("no panic").expect("a call").end, End::Done);
        }
        assert_eq!(alone(&function, b"c").await.expect("a place again").end, End::Done);
    });
    ended.store(true, Ordering::Release);
    for thread in starting {
        thread.join().expect("starts programs");
    }
}

/// Starts programs until it is over.
fn starts(ended: Arc<AtomicBool>) -> impl FnOnce() {
    move || {
        while !ended.load(Ordering::Acquire) {
            assert!(Command::new("true").status().expect("starts").success());
        }
    }
}

#[test]
fn whoever_stops_a_call_ends_it() {
    let ground = Ground::new();
    ground.deploy("stays", "echo here; exec sleep 1000", "", "");
    let function = ground.function("stays");
    let call = block_on(async {
        let (stop, stopped) = watch::channel(false);
        let calling = tokio::spawn(async move { invoke_alone(function, &mut &b""[..], stopped).await });
        stop.send_replace(true);
        calling.await.expect("no panic").expect("a call")
    });
    assert_eq!(call.end, End::Stopped);
}
