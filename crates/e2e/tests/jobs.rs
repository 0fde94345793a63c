//! `holdfast job`: the runner killed, told to stop and told to read anew; its inbox, its hooks, and jobs beside one whose site hangs.

use holdfast_e2e::Outcome;
use holdfast_e2e::knob::knob;
use holdfast_e2e::networked::Net;
use holdfast_e2e::rig::NAME;
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What has not happened by then will not.
const PATIENCE: Duration = Duration::from_mins(2);

/// A folder with a job file, and what its jobs move.
struct Place(tempfile::TempDir);

impl Place {
    fn new(jobs: &str) -> Outcome<Self> {
        let place = Self(tempfile::tempdir()?);
        fs::create_dir_all(place.path("from/sub"))?;
        fs::write(place.path("from/a.txt"), "a")?;
        fs::write(place.path("from/sub/b.txt"), "bb")?;
        place.describe(jobs)?;
        Ok(place)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Puts another text in the place of the job file.
    fn describe(&self, jobs: &str) -> Outcome {
        fs::write(self.path("new"), jobs)?;
        Ok(fs::rename(self.path("new"), self.path("jobs.toml"))?)
    }

    fn job(&self, words: &[&str]) -> Outcome<Command> {
        let mut command = Command::new(program()?);
        command.arg("job").args(words).env("HOLDFAST_JOBS_STATE", self.path("state")).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn history(&self) -> Outcome<Vec<Value>> {
        let output = self.job(&["history", "--json", "--limit", "100000"])?.output()?;
        assert!(output.status.success(), "{output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// A runner, and what it says.
struct Runner {
    child: Child,
    said: Receiver<Value>,
}

impl Runner {
    fn start(place: &Place) -> Outcome<Self> {
        let mut child = place.job(&["run", "jobs.toml", "--json"])?.stderr(Stdio::inherit()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let runner = Self { child, said };
        runner.wait_for("ready", |_| true)?;
        Ok(runner)
    }

    /// The next event of a kind that fits; the others are passed over.
    fn wait_for(&self, event: &str, fits: impl Fn(&Value) -> bool) -> Outcome<Value> {
        loop {
            let value = self.said.recv_timeout(PATIENCE).map_err(|error| format!("no {event} came: {error}"))?;
            if value["event"] == event && fits(&value) {
                return Ok(value);
            }
        }
    }

    fn ended(&self, job: &str) -> Outcome<Value> {
        self.wait_for("ended", |value| value["job"] == job)
    }

    fn tell(&self, signal: Signal) -> Outcome {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).ok_or("no process")?;
        Ok(kill_process(pid, signal)?)
    }

    fn stop(mut self) -> Outcome<ExitStatus> {
        self.tell(Signal::TERM)?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_random(path: &Path, bytes: u64) -> Outcome<Vec<u8>> {
    let mut rng = Prng::new(bytes);
    let content = (0..=bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(usize::try_from(bytes)?);
    let content: Vec<u8> = content.collect();
    fs::write(path, &content)?;
    Ok(content)
}

fn part_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let parts = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "part"));
    parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_job_brings_a_tree_again_and_again_by_schedule() -> Outcome {
    let place = Place::new("[jobs.pull]\nfrom = 'from/.'\nto = 'to'\nevery = '1s'\n")?;
    let runner = Runner::start(&place)?;
    let first = runner.ended("pull")?;
    assert_eq!((first["result"].as_str(), first["trigger"].as_str()), (Some("succeeded"), Some("schedule")), "{first}");
    assert_eq!(fs::read(place.path("to/sub/b.txt"))?, b"bb");
    fs::write(place.path("from/c.txt"), "ccc")?;
    let brought = runner.wait_for("ended", |value| value["done"]["files"] == 1)?;
    assert_eq!(fs::read(place.path("to/c.txt"))?, b"ccc", "{brought}");
    let second = place.job(&["run", "jobs.toml"])?.output()?;
    assert_eq!(second.status.code(), Some(75), "one runner a folder: {}", said(&second));
    let status = place.job(&["status", "jobs.toml", "--json"])?.output()?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    assert!(status["running"] == true && status["jobs"][0]["next"].is_string(), "{status}");
    assert_eq!(runner.stop()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_run_that_was_killed_is_told_as_interrupted_and_goes_on_from_its_blocks() -> Outcome {
    let job = "[jobs.big]\nfrom = 'from/big'\nto = 'to'\nrun-on-start = true\n";
    let place = Place::new(&format!("{job}rate = '2M'\n"))?;
    let content = write_random(&place.path("from/big"), 8 * MIB)?;
    let mut runner = Runner::start(&place)?;
    runner.wait_for("began", |_| true)?;
    while part_bytes(&place.path("to")) < 3 * MIB {
        assert!(runner.child.try_wait()?.is_none(), "it ended too soon");
        sleep(Duration::from_millis(1));
    }
    runner.child.kill()?;
    runner.child.wait()?;
    place.describe(&job.replace("run-on-start = true\n", ""))?;
    let runner = Runner::start(&place)?;
    let resumed = runner.ended("big")?;
    assert_eq!(
        (resumed["result"].as_str(), resumed["trigger"].as_str()),
        (Some("succeeded"), Some("resume")),
        "{resumed}"
    );
    assert!(resumed["done"]["moved_bytes"].as_u64() <= Some(6 * MIB), "{resumed}");
    assert!(fs::read(place.path("to/big"))? == content);
    assert_eq!(runner.stop()?.code(), Some(0));
    let results: Vec<_> = place.history()?.iter().map(|run| run["result"].clone()).collect();
    assert_eq!(results, ["succeeded", "interrupted"]);
    Ok(())
}

#[test]
fn a_run_that_is_told_to_stop_is_put_aside_and_goes_on_with_the_next_start() -> Outcome {
    let job = "[jobs.big]\nfrom = 'from/big'\nto = 'to'\ntolerance = '0s'\n";
    let place = Place::new(&format!("{job}rate = '2M'\nrun-on-start = true\n"))?;
    let content = write_random(&place.path("from/big"), 8 * MIB)?;
    let mut runner = Runner::start(&place)?;
    while part_bytes(&place.path("to")) < 2 * MIB {
        assert!(runner.child.try_wait()?.is_none(), "it ended too soon");
        sleep(Duration::from_millis(1));
    }
    runner.tell(Signal::TERM)?;
    assert_eq!(runner.wait_for("ended", |_| true)?["result"], "put-aside");
    assert_eq!(runner.child.wait()?.code(), Some(0));
    place.describe(job)?;
    let runner = Runner::start(&place)?;
    assert_eq!(runner.ended("big")?["result"], "succeeded");
    assert!(fs::read(place.path("to/big"))? == content);
    Ok(())
}

#[test]
fn kills_at_any_moment_leave_no_run_without_an_end_and_no_step_undone() -> Outcome {
    let place = Place::new(
        "[jobs.j]\nfrom = 'from/.'\nto = 'to'\nevery = '1s'\nrun-on-start = true\n\
         on-success = [{ command = ['/bin/sh', '-c', 'touch told-$HOLDFAST_RUN'] }]\n",
    )?;
    let kills = knob("HOLDFAST_JOB_KILLS", 12_u64);
    let mut rng = Prng::new(kills);
    for kill in 0..kills {
        fs::write(place.path(&format!("from/{kill}")), "x")?;
        let mut runner = Runner::start(&place)?;
        // Any time will do, from before the first line in the store to after the last step.
        sleep(Duration::from_micros(rng.below(60_000)));
        runner.child.kill()?;
        runner.child.wait()?;
    }
    let runner = Runner::start(&place)?;
    let last = runner.ended("j")?["run"].as_i64();
    assert_eq!(runner.stop()?.code(), Some(0));
    let history = place.history()?;
    println!("{kills} kills, {} runs", history.len());
    for run in history.iter().filter(|run| run["run"].as_i64() <= last) {
        let succeeded = run["result"] == "succeeded";
        assert!(succeeded || run["result"] == "interrupted", "{run}");
        assert!(!succeeded || place.path(&format!("told-{}", run["run"])).exists(), "{run}");
    }
    assert_eq!(fs::read_dir(place.path("to"))?.count() as u64, kills + 2);
    Ok(())
}

#[test]
fn orders_in_an_inbox_are_done_or_failed_with_the_reason() -> Outcome {
    let place = Place::new("[jobs.ask]\nfrom = 'from'\nto = 'to'\ninbox = 'in'\n")?;
    fs::create_dir(place.path("in"))?;
    fs::write(place.path("in/one"), "# what is wanted\nsub/b.txt\n")?;
    let runner = Runner::start(&place)?;
    let one = runner.ended("ask")?;
    assert_eq!((one["result"].as_str(), one["trigger"].as_str()), (Some("succeeded"), Some("inbox")), "{one}");
    assert!(place.path("to/sub/b.txt").exists() && !place.path("to/a.txt").exists());
    fs::write(place.path("in/two"), "a.txt\nno such file\n../../etc/passwd\n")?;
    fs::write(place.path("in/three"), "a.txt\nno such file\n")?;
    runner.ended("ask")?;
    runner.ended("ask")?;
    while !place.path("in/failed/two").exists() || !place.path("in/failed/three").exists() {
        sleep(Duration::from_millis(1));
    }
    let errors = |name: &str| fs::read_to_string(place.path(&format!("in/failed/{name}.errors")));
    assert!(errors("two")?.contains(".."), "{}", errors("two")?);
    assert!(errors("three")?.contains("no such file"), "{}", errors("three")?);
    assert!(place.path("in/done/one").exists() && place.path("to/a.txt").exists(), "the rest of an order is done");
    assert_eq!(runner.stop()?.code(), Some(0));
    Ok(())
}

/// Answers one request of HTTP; returns its head and body.
fn answer(listener: &TcpListener, status: &str) -> Outcome<(String, String)> {
    let (stream, _) = listener.accept()?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    reader
        .get_mut()
        .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes())?;
    Ok((head, String::from_utf8(body)?))
}

#[test]
fn a_hook_is_told_and_told_again_where_it_failed_and_then_a_command_is_run() -> Outcome {
    let hook = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/hook", hook.local_addr()?);
    let place = Place::new(&format!(
        "[jobs.j]\nfrom = 'from/.'\nto = 'to'\nrun-on-start = true\non-success = [{{ notify = '{url}', token-file = 'token' }}, \
         {{ command = ['/bin/sh', '-c', 'cp to/a.txt copied; echo $HOLDFAST_RESULT > result'] }}]\n"
    ))?;
    fs::write(place.path("token"), "sesame\n")?;
    let runner = Runner::start(&place)?;
    answer(&hook, "503 Service Unavailable")?;
    let (head, body) = answer(&hook, "204 No Content")?;
    assert!(
        head.starts_with("POST /hook ") && head.to_ascii_lowercase().contains("authorization: bearer sesame"),
        "{head}"
    );
    let told: Value = serde_json::from_str(&body)?;
    assert_eq!(
        (told["job"].as_str(), told["result"].as_str(), told["done"]["files"].as_u64()),
        (Some("j"), Some("succeeded"), Some(2))
    );
    let ended = runner.ended("j")?;
    assert_eq!(ended["step_errors"], serde_json::json!([]), "{ended}");
    assert_eq!(
        (fs::read(place.path("copied"))?, fs::read(place.path("result"))?),
        (b"a".to_vec(), b"succeeded\n".to_vec())
    );
    assert_eq!(runner.stop()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_step_under_a_policy_sees_what_that_names_and_is_not_run_if_it_cannot_be_held() -> Outcome {
    const TELL: &str = "echo $HOLDFAST_JOB > said; cat > told; cat ../jobs.toml > stolen; echo x > ../escaped; exit 0";
    let place = Place::new(&format!(
        "[jobs.j]\nfrom = 'from/.'\nto = 'to'\non-success = [{{ command = ['/bin/sh', '-c', '{TELL}'], policy = 'step.toml' }}, \
         {{ command = ['/bin/sh', '-c', 'echo it is broken; exit 3'], policy = 'step.toml' }}, \
         {{ command = ['/bin/sh', '-c', 'touch out/ran'], policy = 'bad.toml' }}]\n"
    ))?;
    fs::create_dir(place.path("out"))?;
    let shown = ["/usr", "/bin", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists());
    let shown: Vec<String> = shown.map(|path| format!("\"{path}\" = \"read+exec\"\n")).collect();
    let shown = shown.concat();
    let policy = format!(
        "default = \"deny\"\ndirectory = \"out\"\n[environment]\nkeep = [\"PATH\", \"HOLDFAST_JOB\"]\n[files]\n{shown}\"/etc/ld.so.cache\" = \"read\"\nout = \"all\"\n"
    );
    fs::write(place.path("step.toml"), policy)?;
    fs::write(place.path("bad.toml"), "default = \"deny\"\n[files]\nout = \"everything\"\n")?;
    let output = place.job(&["start", "j", "jobs.toml", "--json"])?.output()?;
    let run = place.history()?.remove(0);
    assert_eq!(run["result"], "succeeded", "{run} {output:?}");
    let errors = run["step_errors"].as_array().ok_or("no errors")?;
    assert_eq!(errors.len(), 2, "{run}");
    let says = |at: usize, what: &str| errors[at].as_str().is_some_and(|error| error.contains(what));
    assert!(says(0, "step 2") && says(0, "it is broken") && says(0, "3"), "{run}");
    assert!(says(1, "step 3") && says(1, "bad.toml"), "{run}");
    assert_eq!(fs::read_to_string(place.path("out/said"))?, "j\n");
    let told: Value = serde_json::from_slice(&fs::read(place.path("out/told"))?)?;
    assert_eq!(told["result"], "succeeded");
    assert_eq!(fs::read_to_string(place.path("out/stolen"))?, "", "the job file is not there for it");
    assert!(!place.path("escaped").exists() && !place.path("out/ran").exists());
    Ok(())
}

#[test]
fn a_hook_that_a_kill_kept_from_being_told_is_told_by_the_next_start() -> Outcome {
    let hook = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/", hook.local_addr()?);
    let job = format!("[jobs.j]\nfrom = 'from/.'\nto = 'to'\non-success = [{{ notify = '{url}' }}]\n");
    let place = Place::new(&format!("{job}run-on-start = true\n"))?;
    let mut runner = Runner::start(&place)?;
    // It has come, and is never answered.
    let (_stream, _) = hook.accept()?;
    runner.child.kill()?;
    runner.child.wait()?;
    place.describe(&job)?;
    let runner = Runner::start(&place)?;
    let (_, body) = answer(&hook, "200 OK")?;
    assert!(body.contains("\"succeeded\""), "{body}");
    assert_eq!(runner.stop()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_file_that_is_broken_keeps_what_ran_and_one_that_is_right_again_is_followed() -> Outcome {
    let good = "[jobs.j]\nfrom = 'from/.'\nto = 'to'\nevery = '1s'\n";
    let place = Place::new(good)?;
    let runner = Runner::start(&place)?;
    runner.ended("j")?;
    place.describe("[jobs.j]\nfrom = 'from/.'\nto = 'to'\nevery = 'often'\n")?;
    runner.tell(Signal::HUP)?;
    let why = runner.wait_for("not-reloaded", |_| true)?;
    assert!(why["message"].as_str().is_some_and(|why| why.contains("jobs.toml:4")), "{why}");
    runner.ended("j")?;
    runner.ended("j")?;
    place.describe(&format!(
        "[jobs.other]\nfrom = 'from/a.txt'\nto = 'elsewhere'\nevery = '1s'\n{}",
        good.replace("'to'", "'to2'")
    ))?;
    runner.tell(Signal::HUP)?;
    assert_eq!(runner.wait_for("reloaded", |_| true)?["jobs"], serde_json::json!(["j", "other"]));
    assert_eq!(runner.ended("other")?["result"], "succeeded");
    while !place.path("to2/a.txt").exists() {
        runner.ended("j")?;
    }
    place.describe("[jobs.other]\nfrom = 'from/a.txt'\nto = 'elsewhere'\n")?;
    runner.tell(Signal::HUP)?;
    runner.wait_for("reloaded", |_| true)?;
    assert_eq!(runner.stop()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_site_that_never_answers_holds_up_its_own_job_and_no_other() -> Outcome {
    let silent = TcpListener::bind(("127.0.0.1", 0))?;
    let address = silent.local_addr()?;
    let place = Place::new(&format!(
        "[sites.silent]\naddress = 'web:http://{address}/'\nconnections = 1\n\
         [jobs.stuck]\nfrom = 'silent:x'\nto = 'to'\nrun-on-start = true\n\
         [jobs.waits-for-stuck]\nfrom = 'silent:y'\nto = 'to'\nrun-on-start = true\n\
         [jobs.fine]\nfrom = 'from/.'\nto = 'fine'\nevery = '1s'\n"
    ))?;
    let runner = Runner::start(&place)?;
    // Somebody asked, and hears nothing.
    let (_stream, _) = silent.accept()?;
    for _ in 0..3 {
        let ended = runner.wait_for("ended", |_| true)?;
        assert_eq!((ended["job"].as_str(), ended["result"].as_str()), (Some("fine"), Some("succeeded")), "{ended}");
    }
    assert_eq!(runner.stop()?.code(), Some(0), "what hangs is put aside");
    let aside = place.history()?.iter().filter(|run| run["result"] == "put-aside").count();
    assert_eq!(aside, 2);
    Ok(())
}

#[test]
fn commands_say_what_is_wrong_what_would_be_done_and_what_was_done() -> Outcome {
    let place = Place::new("[jobs.j]\nfrom = 'from/.'\nto = 'to'\ncron = '61 * * * *'\n")?;
    let wrong = place.job(&["check", "jobs.toml"])?.output()?;
    assert!(wrong.status.code() == Some(64) && said(&wrong).contains("jobs.toml:4"), "{}", said(&wrong));
    place.describe(
        "[jobs.j]\nfrom = 'from/.'\nto = 'to/{kind}'\ncron = '@daily'\ntime-zone = 'UTC'\nvariables = { kind = 'x' }\n\
         rename = '{parent}/{stem}-{kind}.{extension}'\nverify = true\ndelete-source = true\n",
    )?;
    assert!(place.job(&["check", "jobs.toml"])?.output()?.status.success());
    let preview = place.job(&["preview", "j", "jobs.toml", "--json"])?.output()?;
    let lines: Vec<Value> =
        String::from_utf8(preview.stdout)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(lines[0]["times"].as_array().map(Vec::len), Some(10));
    assert!(lines.iter().any(|line| line["event"] == "plan" && line["path"] == "/to/x/sub/b-x.txt"), "{lines:?}");
    assert!(!place.path("to").exists() && place.path("from/a.txt").exists(), "nothing was done");
    let started = place.job(&["start", "j", "jobs.toml", "--json"])?.output()?;
    assert!(started.status.success(), "{}", said(&started));
    let last: Value =
        serde_json::from_str(String::from_utf8(started.stdout)?.lines().last().ok_or("nothing was said")?)?;
    assert_eq!(
        (last["done"]["verified"].as_u64(), last["done"]["deleted_source"].as_u64()),
        (Some(2), Some(2)),
        "{last}"
    );
    assert!(place.path("to/x/a-x.txt").exists() && !place.path("from/a.txt").exists());
    let unknown = place.job(&["start", "nobody", "jobs.toml"])?.output()?;
    assert_eq!(unknown.status.code(), Some(66), "{}", said(&unknown));
    let missing = Place::new("[jobs.j]\nfrom = ['from/a.txt', 'from/none']\nto = 'to'\n")?;
    let partial = missing.job(&["start", "j", "jobs.toml"])?.output()?;
    assert!(partial.status.code() == Some(74) && missing.path("to/a.txt").exists(), "{}", said(&partial));
    Ok(())
}

#[test]
fn a_run_to_a_drive_tells_of_the_network_while_it_is_under_way_and_in_its_history() -> Outcome {
    let mut net = Net::new()?;
    let place = Place::new("")?;
    let text = |path: PathBuf| path.display().to_string();
    fs::write(place.path("token"), &net.token)?;
    place.describe(&format!(
        "[sites.drive]\naddress = '{}/{NAME}'\nlogin = {{ token-file = '{}' }}\nca = '{}'\nplane = 'quic'\n\
         [jobs.up]\nfrom = 'from/.'\nto = 'drive:in'\nevery = '1d'\nrun-on-start = true\nrate = '1M'\n",
        net.url(),
        text(place.path("token")),
        text(net.certificate()),
    ))?;
    // Twelve seconds, in which two programs are started on a machine that is busy.
    write_random(&place.path("from/large"), 12 * MIB)?;
    let runner = Runner::start(&place)?;
    let is_told = |network: &Value| network["plane"] == "quic" && network["rtt_ms"].as_f64().is_some_and(|ms| ms > 0.0);
    let live = runner.wait_for("progress", |value| value["done"]["live"]["rate"].as_u64() > Some(0))?;
    assert!(live["job"] == "up" && is_told(&live["done"]["network"]), "{live}");
    assert!(live["done"]["retries"] == 0 && live["done"]["network"]["lost"].is_number(), "{live}");

    let status: Value = serde_json::from_slice(&place.job(&["status", "jobs.toml", "--json"])?.output()?.stdout)?;
    assert!(is_told(&status["jobs"][0]["last"]["done"]["network"]), "{status}");
    let words = said(&place.job(&["status", "jobs.toml"])?.output()?);
    assert!(words.contains("under way") && words.contains("/s") && words.contains(", quic "), "{words}");

    let ended = runner.ended("up")?;
    assert!(ended["result"] == "succeeded" && is_told(&ended["done"]["network"]), "{ended}");
    assert!(is_told(&place.history()?[0]["done"]["network"]));
    let words = said(&place.job(&["history"])?.output()?);
    assert!(words.contains(", quic ") && !words.contains("/s"), "{words}");
    assert!(runner.stop()?.success());
    net.rig.stop()
}
