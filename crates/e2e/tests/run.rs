//! Confined programs through the built program, as the account that runs the tests and, where that is root, as an ordinary one.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{id_of, json, under_way};
use holdfast_e2e::others::{PJDFSTEST_SETTINGS, cargo_program};
use holdfast_testkit::confined::{Ground, Started, as_each, text, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

#[test]
fn a_program_sees_and_changes_what_its_policy_names_and_nothing_else() -> Outcome {
    as_each(|ground| {
        let hidden = ground.path("hidden/secret").display().to_string();
        let script = format!(
            "cat kept/file; echo made > made; echo $TOLD $SECRET; cat {hidden}; echo x > kept/file; echo x > kept/new; rm kept/file; ls /home /root; cat /etc/passwd; seen=$(ls /proc); echo \"$seen\" | grep -c '^[0-9]'; ls /sys"
        );
        let output = ground.run(&["sh", "-c", &script])?;
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        // Shell, ls and init.
        assert_eq!(said, "kept\nyes\n3\n", "{errors}");
        for refused in
            [&*hidden, "kept/file: Read-only", "kept/new: Read-only", "'/home'", "'/root'", "/etc/passwd", "'/sys'"]
        {
            assert!(errors.contains(refused), "{refused}: {errors}");
        }
        assert_eq!(fs::read_to_string(ground.path("work/made"))?, "made\n");
        assert_eq!(fs::read_to_string(ground.path("work/kept/file"))?, "kept\n");
        Ok(())
    })
}

#[test]
fn what_cannot_be_enforced_exactly_is_refused_by_name_and_nothing_starts() -> Outcome {
    as_each(|ground| {
        let rule = "[[rule]]\ndeny = [\"mmap\"]\npath = \"/usr\"\narguments = { range = [0, 10] }\n";
        ground.policy("policy.toml", &(ground.usual() + rule))?;
        let output = ground.run(&["sh", "-c", "touch ran"])?;
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains("rule 8") && (errors.contains("bytes of a mapping") || errors.contains("/dev/fuse")),
            "{errors}"
        );
        assert!(!ground.path("work/ran").exists());
        ground.policy("policy.toml", &ground.usual().replace("\"all\"", "\"al\""))?;
        let output = ground.run(&["sh", "-c", "touch ran"])?;
        let errors = text(&output.stderr);
        assert!(
            output.status.code() == Some(64) && errors.contains("policy.toml:12") && errors.contains("all"),
            "{errors}"
        );
        assert!(!ground.path("work/ran").exists());
        Ok(())
    })
}

#[test]
fn its_exit_code_its_signal_and_its_streams_are_the_caller_s() -> Outcome {
    as_each(|ground| {
        assert_eq!(ground.run(&["sh", "-c", "exit 7"])?.status.code(), Some(7));
        assert_eq!(ground.run(&["sh", "-c", "kill -TERM $$"])?.status.code(), Some(128 + 15));
        assert_eq!(ground.run(&["no-such-program"])?.status.code(), Some(66));
        // A file outside of the view, handed over as a stream.
        let policy = ground.path("policy.toml").display().to_string();
        let (from, to) = (ground.path("hidden/secret"), ground.path("out"));
        let mut command = ground.command(&["run", "--policy", &policy, "--", "cat"]);
        let status = command.stdin(fs::File::open(from)?).stdout(fs::File::create(&to)?).status()?;
        assert!(status.success());
        assert_eq!(fs::read_to_string(to)?, "secret\n");
        // A signal to the supervisor is the program's.
        let mut child = ground.start(&[], "trap 'exit 5' TERM; touch ready; while :; do sleep 0.02; done")?;
        until("the program", || Ok(ground.path("work/ready").exists()))?;
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)?;
        assert_eq!(child.wait()?.code(), Some(5));
        Ok(())
    })
}

#[test]
fn unix_sockets_are_closed_whatever_holds_the_policy() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let _listener = UnixListener::bind(ground.path("work/listens"))?;
        fs::set_permissions(ground.path("work/listens"), fs::Permissions::from_mode(0o777))?;
        let script = "import socket
def say(what):
    try: what(); print('ok')
    except OSError as error: print(error.strerror)
say(lambda: socket.socket(socket.AF_UNIX).connect('listens'))
pair = socket.socketpair()
say(lambda: pair[0].send(b'x'))";
        let gate = format!("[[rule]]\ndeny = [\"read\"]\npath = \"{work}/kept\"\narguments = {{ offset = 4 }}\n");
        let broker = format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/*.kept\"\n");
        for (mechanism, rule) in [("view", ""), ("broker", &broker), ("gate", &gate)] {
            for (setting, first) in [("all", "ok"), ("none", "Address family not supported by protocol")] {
                let policy = format!("unix-sockets = \"{setting}\"\n{}{rule}", ground.usual());
                ground.policy("policy.toml", &policy)?;
                let explained =
                    ground.command(&["policy", "explain", &ground.path("policy.toml").display().to_string()]);
                let explained = { explained }.output()?;
                if !explained.status.success() && mechanism == "gate" {
                    continue;
                }
                let told = text(&explained.stdout);
                assert_eq!(told.contains("whoever listens there"), setting == "all" && mechanism != "broker", "{told}");
                let said = ground.run(&["/usr/bin/python3", "-c", script])?;
                assert_eq!(text(&said.stdout), format!("{first}\nok\n"), "{mechanism}: {said:?}");
            }
        }
        Ok(())
    })
}

#[test]
fn memory_that_processes_share_by_name_is_there_where_it_is_allowed() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let broker = format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/*.kept\"\n");
        let allow = format!("default = \"allow\"\ndirectory = \"{work}\"\n");
        let deny = ground.usual() + "\"/dev/shm\" = \"all\"\n";
        for policy in [&deny, &(deny.clone() + &broker), &allow, &(allow.clone() + &broker)] {
            ground.policy("policy.toml", policy)?;
            let script = "import multiprocessing; multiprocessing.Lock(); print('ok')";
            let said = ground.run(&["/usr/bin/python3", "-c", script])?;
            assert_eq!(text(&said.stdout), "ok\n", "{policy}: {said:?}");
        }
        for rule in ["", &broker] {
            ground.policy("policy.toml", &(ground.usual() + rule))?;
            let said = ground.run(&["sh", "-c", "echo x > /dev/shm/made || ls /dev/shm"])?;
            assert!(!said.status.success() && said.stdout.is_empty(), "nothing allows it: {said:?}");
        }
        Ok(())
    })
}

#[test]
fn limits_end_it_and_say_so() -> Outcome {
    as_each(|ground| {
        ground.policy("policy.toml", &(ground.usual() + "[limits]\nseconds = 1\n"))?;
        let output = ground.run(&["sh", "-c", "trap '' TERM INT HUP; while :; do :; done"])?;
        assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
        assert!(text(&output.stderr).contains("time by the clock"), "{output:?}");
        Ok(())
    })
}

#[test]
fn a_running_program_is_listed_stopped_let_go_on_held_to_another_policy_and_killed() -> Outcome {
    as_each(|ground| {
        let script = "while :; do echo x >> log 2>/dev/null; sleep 0.01; done # counts";
        let mut child = ground.start(&[], script)?;
        let log = ground.path("work/log");
        let length = || fs::metadata(&log).map_or(0, |it| it.len());
        until("the program", || Ok(length() > 4))?;
        let id = id_of(ground, "# counts")?;
        assert_eq!(id.parse::<u32>()?, child.id());
        assert_eq!(under_way(ground, "# counts")?.ok_or("it is not listed")?["frozen"], false);
        ground.command(&["run", "freeze", &id]).status()?;
        assert_eq!(under_way(ground, "# counts")?.ok_or("it is not listed")?["frozen"], true);
        let stopped = length();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(length(), stopped);
        ground.command(&["run", "thaw", &id]).status()?;
        until("it going on", || Ok(length() > stopped + 4))?;
        ground.policy("stricter.toml", &ground.usual().replace("\"all\"", "\"read\""))?;
        let stricter = ground.path("stricter.toml").display().to_string();
        // Between two writes of the program; in the middle of one it is refused.
        until("another policy", || Ok(ground.command(&["run", "policy", "set", &id, &stricter]).status()?.success()))?;
        let written = length();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(length(), written, "it may write no more");
        let refused = ground.command(&["run", "policy", "set", &id, "/no/such/file"]).output()?;
        assert_eq!(refused.status.code(), Some(66), "{refused:?}");
        ground.command(&["run", "kill", &id]).status()?;
        assert_eq!(child.wait()?.code(), Some(128 + 9));
        assert!(under_way(ground, "# counts")?.is_none());
        let gone = ground.command(&["run", "kill", &id]).output()?;
        assert_eq!(gone.status.code(), Some(66), "{gone:?}");
        Ok(())
    })
}

/// Its socket is there before anybody listens on it, for as long as the system takes.
#[test]
fn whoever_asks_while_one_begins_does_not_take_it_for_dead() -> Outcome {
    let ground = Ground::new(false)?;
    let policy = ground.path("policy.toml").display().to_string();
    let trace = ground.path("changes/trace");
    let slow = ["-e", "trace=listen", "-e", "inject=listen:delay_enter=1000000", "-o"];
    let child = ground
        .as_account("strace")
        .args(slow)
        .arg(&trace)
        .arg(ground.program())
        .args(["run", "--policy", &policy, "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done # slow"])
        .spawn()?;
    let mut child = Started(child);
    until("it beginning to listen", || Ok(fs::read_to_string(&trace).is_ok_and(|text| text.starts_with("listen("))))?;
    assert!(under_way(&ground, "# slow")?.is_none());
    id_of(&ground, "# slow")?;
    fs::write(ground.path("work/go"), "")?;
    assert!(child.wait()?.success());
    Ok(())
}

/// What a policy does not name any more is a mount as before, and follows what is around it from one policy to the next.
#[test]
fn what_two_policies_leave_out_is_held_to_the_second() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let with = |work_may: &str, kept_may: &str| {
            let usual =
                ground.usual().replace(&format!("\"{work}\" = \"all\""), &format!("\"{work}\" = \"{work_may}\""));
            usual.replace(&format!("{work}/kept\" = \"read\""), &format!("{work}/kept\" = \"{kept_may}\""))
                + &format!("\"{}\" = \"all\"\n", ground.path("changes").display())
        };
        ground.policy("policy.toml", &with("all", "read+exec"))?;
        let told = ground.path("changes/told").display().to_string();
        let script = format!("while :; do kept/program 2> /dev/null && echo x >> {told}; sleep 0.01; done # second");
        fs::copy("/usr/bin/true", ground.path("work/kept/program"))?;
        let mut child = ground.start(&[], &script)?;
        let length = || fs::metadata(ground.path("changes/told")).map_or(0, |it| it.len());
        until("the program", || Ok(length() > 4))?;
        let id = id_of(ground, "# second")?;
        let set = |policy: &str| -> Outcome<bool> {
            ground.policy("other.toml", policy)?;
            let other = ground.path("other.toml").display().to_string();
            Ok(ground.command(&["run", "policy", "set", &id, &other]).status()?.success())
        };
        assert!(set(&with("read+exec", "read+exec"))?);
        let before = length();
        until("going on", || Ok(length() > before + 4))?;
        assert!(set(&with("read", "read"))?);
        let before = length();
        std::thread::sleep(Duration::from_millis(200));
        assert!(length() <= before + 2, "it is executed although it may only be read");
        ground.command(&["run", "kill", &id]).status()?;
        child.wait()?;
        Ok(())
    })
}

#[test]
fn it_dies_with_its_supervisor() -> Outcome {
    as_each(|ground| {
        let script = "trap '' TERM HUP INT; (while :; do echo x >> log; sleep 0.01; done) & while :; do echo x >> log; sleep 0.01; done";
        let mut child = ground.start(&[], script)?;
        let log = ground.path("work/log");
        let length = || fs::metadata(&log).map_or(0, |it| it.len());
        until("the program", || Ok(length() > 10))?;
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(9));
        let mut before = length();
        until("its end", || {
            std::thread::sleep(Duration::from_millis(100));
            let now = length();
            let stood = now == before;
            before = now;
            Ok(stood)
        })
    })
}

#[test]
fn changes_are_kept_apart_looked_at_forgotten_or_made() -> Outcome {
    as_each(|ground| {
        let of = format!("{}={}", ground.path("work").display(), ground.path("changes").display());
        ground.policy(
            "policy.toml",
            &ground.usual().replace(&format!("\"{}/kept\" = \"read\"\n", ground.path("work").display()), ""),
        )?;
        let work = || -> Outcome {
            let mut child = ground.start(
                &["--cow", &of],
                "echo new > new; echo more >> kept/file; mkdir made; mv kept/file made/moved",
            )?;
            assert!(child.wait()?.success(), "{:?}", child.errors()?);
            Ok(())
        };
        work()?;
        let whole = || -> Outcome<Vec<String>> {
            let output =
                Command::new("find").current_dir(ground.path("work")).args([".", "-mindepth", "1"]).output()?;
            let mut all: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
            all.sort();
            Ok(all)
        };
        assert_eq!(whole()?, ["./kept", "./kept/file"]);
        let changes = json(ground, &["run", "diff", &of])?;
        let pairs: Vec<_> = changes
            .as_array()
            .ok_or("no list")?
            .iter()
            .map(|it| {
                format!("{} {}", it["change"].as_str().unwrap_or_default(), it["path"].as_str().unwrap_or_default())
            })
            .collect();
        assert_eq!(pairs, ["deleted kept/file", "added made", "added made/moved", "added new"]);
        let patch = ground.path("changes.tar");
        let words = ["run", "patch", &of, "-"];
        fs::write(&patch, ground.command(&words).output()?.stdout)?;
        let listed = text(&Command::new("tar").arg("-tf").arg(&patch).output()?.stdout);
        for name in ["kept/.wh.file", "made/moved", "new"] {
            assert!(listed.lines().any(|line| line.trim_start_matches("./") == name), "{name}: {listed}");
        }
        assert!(ground.command(&["run", "discard", &of]).status()?.success());
        assert_eq!(json(ground, &["run", "diff", &of])?, serde_json::json!([]));
        work()?;
        assert!(ground.command(&["run", "commit", &of]).status()?.success());
        assert_eq!(whole()?, ["./kept", "./made", "./made/moved", "./new"]);
        assert_eq!(fs::read_to_string(ground.path("work/made/moved"))?, "kept\nmore\n");
        Ok(())
    })
}

#[test]
fn a_pair_of_the_older_form_is_taken_as_it_is() -> Outcome {
    let ground = Ground::new(false)?;
    let work = ground.path("work");
    let work = work.display();
    let model = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[policy_effect]\ne = !some(where (p.eft == deny))\n[matchers]\nm = r.sub == p.sub && r.obj == p.obj && r.act == p.act\n";
    ground.policy("model.txt", model)?;
    ground.policy(
        "rules.txt",
        &format!("p, sh, {work}/kept, default, dir, deny\np, sh, {work}/kept, default, file, deny\n"),
    )?;
    let [model, rules] = ["model.txt", "rules.txt"].map(|name| ground.path(name).display().to_string());
    let convert = ground.command(&["policy", "convert", "--model", &model, "--rules", &rules]).output()?;
    assert!(convert.status.success(), "{convert:?}");
    let script = format!("cat {work}/kept/file; echo made > {work}/made");
    let output = ground.command(&["run", "--model", &model, "--rules", &rules, "--", "sh", "-c", &script]).output()?;
    assert!(text(&output.stderr).contains("kept") && output.stdout.is_empty(), "{output:?}");
    assert!(Path::new(&format!("{work}/made")).exists());
    Ok(())
}

/// In a user namespace that may make no others, the program finds none, as on a machine that forbids them.
#[test]
fn without_namespaces_it_is_refused_or_what_is_weaker_is_listed() -> Outcome {
    let ground = Ground::new(false)?;
    let work = ground.path("work");
    let policy = ground.path("policy.toml").display().to_string();
    let run = |more: &[&str], script: &str| -> Outcome<Output> {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"",
            "sh",
        ]);
        command.arg(ground.program()).args(["run", "--policy", &policy]).args(more).args(["--", "sh", "-c", script]);
        Ok(command.env("XDG_RUNTIME_DIR", ground.path("runtime")).output()?)
    };
    let plain = ground.usual().replace(&format!("\"{}/kept\" = \"read\"\n", work.display()), "");
    ground.policy("policy.toml", &plain)?;
    let refused = run(&[], "touch ran")?;
    assert!(!refused.status.success() && text(&refused.stderr).contains("--allow-degraded"), "{refused:?}");
    assert!(!work.join("ran").exists());
    let hidden = ground.path("hidden/secret").display().to_string();
    let output = run(&["--allow-degraded"], &format!("touch ran; cat {hidden}; cat /etc/passwd"))?;
    assert!(work.join("ran").exists() && output.stdout.is_empty(), "{output:?}");
    assert!(text(&output.stderr).contains("without user namespaces names"), "{output:?}");
    // Less inside of more is what Landlock cannot say.
    ground.policy("policy.toml", &ground.usual())?;
    fs::remove_file(work.join("ran"))?;
    let refused = run(&["--allow-degraded"], "touch ran")?;
    assert!(refused.status.code() == Some(64) && text(&refused.stderr).contains("/kept"), "{refused:?}");
    assert!(!work.join("ran").exists());
    Ok(())
}

/// The POSIX test suite (`scripts/need.sh pjdfstest`), as an ordinary account: what root may do besides, nobody may in a sandbox.
#[test]
fn pjdfstest_finds_the_same_under_a_policy_that_allows_everything() -> Outcome {
    let ground = Ground::new(rustix::process::geteuid().is_root())?;
    let devices = "devices = [\"null\", \"zero\", \"full\", \"random\", \"urandom\", \"tty\"]\n";
    let work = ground.path("work").display().to_string();
    ground
        .policy("policy.toml", &format!("default = \"allow\"\ndirectory = \"{work}\"\nnetwork = \"all\"\n{devices}"))?;
    fs::write(ground.path("pjdfstest.toml"), PJDFSTEST_SETTINGS)?;
    let suite = ground.path("pjdfstest").display().to_string();
    fs::copy(cargo_program("pjdfstest")?, &suite)?;
    let settings = ground.path("pjdfstest.toml").display().to_string();
    let words = [&*suite, "-c", &settings, "-p", &work];
    let results = |output: &Output| {
        let said = text(&output.stdout);
        let mut all: Vec<_> = said
            .lines()
            .filter(|line| line.contains("::"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        all.sort();
        all
    };
    let native = results(&ground.as_account(&suite).args(&words[1..]).output()?);
    let confined = ground.run(&words)?;
    assert_eq!(results(&confined), native, "{confined:?}");
    assert!(native.iter().filter(|line| line.ends_with(" ok")).count() > 200, "{native:?}");
    Ok(())
}

#[test]
fn many_at_once_leave_nothing_behind() -> Outcome {
    let ground = Ground::new(false)?;
    let mounts = || {
        fs::read_to_string("/proc/self/mountinfo")
            .map(|text| text.lines().filter(|line| line.contains("/work/kept")).count())
    };
    let children: Vec<_> =
        (0..64).map(|number| ground.start(&[], &format!("echo {number} > n{number}"))).collect::<Outcome<_>>()?;
    for mut child in children {
        assert!(child.wait()?.success());
    }
    assert_eq!(fs::read_dir(ground.path("work"))?.count(), 64 + 1);
    assert_eq!(mounts()?, 0);
    assert_eq!(
        json(&ground, &["run", "ps"])?
            .as_array()
            .map_or(0, |all| all.iter().filter(|it| it["command"].to_string().contains("> n")).count()),
        0
    );
    Ok(())
}
