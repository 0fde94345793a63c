//! Confined programs before whose folders gates stand, through the built program: rules that name arguments of each call.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{id_of, json};
use holdfast_testkit::alone::{alone, mounts};
use holdfast_testkit::confined::{Ground, as_each, as_each_serving, text, until};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Of `work`, no read at 4 of 4 bytes.
fn rule(ground: &Ground, operation: &str, arguments: &str) -> String {
    format!(
        "[[rule]]\ndeny = [\"{operation}\"]\npath = \"{}\"\narguments = {{ {arguments} }}\n",
        ground.path("work").display()
    )
}

fn gated(ground: &Ground, rules: &str) -> Outcome<String> {
    ground.policy("policy.toml", &(ground.usual() + rules))?;
    Ok(ground.path("policy.toml").display().to_string())
}

#[test]
fn rules_about_each_call_are_held_by_a_gate_before_their_folder_alone_and_written_down() -> Outcome {
    as_each_serving(|ground| {
        let work = ground.path("work");
        let policy = gated(ground, &rule(ground, "read", "offset = 4, length = 4"))?;
        if ground.command(&["policy", "explain", &policy]).output()?.status.success() {
            let told = json(ground, &["policy", "explain", &policy])?;
            assert_eq!((&told["mechanism"], &told["exact"]), (&Value::from("gate"), &Value::from(true)));
            assert_eq!(told["folders"], Value::from(vec![work.display().to_string()]));
        }
        let audit = ground.path("runtime/audit").display().to_string();
        let script = "printf 0123456789 > f; dd if=f bs=4 count=1 skip=1 status=none; dd if=f bs=4 count=1 status=none; dd if=f bs=2 count=2 skip=2 status=none; cat kept/file; echo x > kept/file; cat /etc/passwd; ls /home; echo $TOLD; cat f";
        let output =
            ground.command(&["run", "--policy", &policy, "--audit", &audit, "--", "sh", "-c", script]).output()?;
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(said, "01234567kept\nyes\n0123456789", "{errors}");
        assert!(errors.contains("refusals are seen in"), "{errors}");
        assert_eq!(fs::read_to_string(ground.path("work/kept/file"))?, "kept\n");
        let lines: Vec<Value> =
            fs::read_to_string(&audit)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let read: Vec<_> = lines.iter().filter(|line| line["operation"] == "read").collect();
        assert_eq!(read.len(), 1, "{lines:#?}");
        assert_eq!(
            (&read[0]["mechanism"], &read[0]["path"]),
            (&Value::from("gate"), &Value::from(work.join("f").display().to_string()))
        );
        assert!(
            read[0]["rule"]["text"].to_string().contains("offset = 4") && read[0]["program"].to_string().contains("dd")
        );
        // What is handed over from there would be past it.
        let mut handed = ground.command(&["run", "--policy", &policy, "--", "cat"]);
        let handed = handed.stdin(fs::File::open(work.join("f"))?).output()?;
        assert!(text(&handed.stderr).contains("behind a gate") && handed.stdout.is_empty(), "{handed:?}");
        // The rule of the folder inside is decided by the gate, too.
        assert!(
            lines.iter().any(|line| line["path"].to_string().contains("kept/file") && line["operation"] != "read"),
            "{lines:#?}"
        );
        Ok(())
    })
}

#[test]
fn whoever_may_not_serve_file_systems_is_told_so_by_rule_and_nothing_starts() -> Outcome {
    as_each(|ground| {
        let policy = gated(ground, &rule(ground, "read", "offset = 4"))?;
        let output = ground.run(&["sh", "-c", "touch ran"])?;
        if output.status.success() {
            // Here everybody may, or this is root.
            return Ok(());
        }
        let errors = text(&output.stderr);
        assert!(errors.contains("/dev/fuse") && errors.contains("rule 8"), "{errors} {policy}");
        assert!(!ground.path("work/ran").exists());
        Ok(())
    })
}

#[test]
fn what_a_gate_cannot_hold_is_refused_by_name_and_nothing_starts() -> Outcome {
    as_each_serving(|ground| {
        let work = ground.path("work").display().to_string();
        let each = rule(ground, "read", "offset = 4");
        for (rules, words) in [
            (rule(ground, "mmap", "range = [0, 4096]"), "bytes of a mapping"),
            (each.clone() + &rule(ground, "llseek", "whence = 1"), "arguments of seeking"),
            (each.clone() + &format!("[[rule]]\ndeny = [\"llseek\"]\npath = \"{work}\"\n"), "seeking is refused"),
            (rule(ground, "read", "flags = 0"), "it names flags"),
            (rule(ground, "write", "length = 2000000"), "more than 1,044,480 bytes"),
            (each.clone() + &rule(ground, "fsync", "length = 4"), "a length of syncing"),
            (each.clone() + &format!("[[rule]]\ndeny = [\"mmap\"]\npath = \"{work}\"\n"), "what runs is mapped"),
            (
                each.clone() + "[[rule]]\ndeny = [\"unlink\"]\npath = \"/\"\nprogram = \"rm\"\n",
                "no gate stands before the root",
            ),
        ] {
            gated(ground, &rules)?;
            let output = ground.run(&["sh", "-c", "touch ran"])?;
            let errors = text(&output.stderr);
            assert!(output.status.code() == Some(64) && errors.contains(words), "{words}: {errors}");
            assert!(!ground.path("work/ran").exists());
        }
        let policy = gated(ground, &each)?;
        let copy = format!("{work}={}", ground.path("changes").display());
        let output =
            ground.command(&["run", "--policy", &policy, "--cow", &copy, "--", "sh", "-c", "touch ran"]).output()?;
        assert!(text(&output.stderr).contains("cannot be kept apart"), "{output:?}");
        Ok(())
    })
}

#[test]
fn a_copy_on_write_folder_beside_a_gate_is_kept_apart() -> Outcome {
    as_each_serving(|ground| {
        let beside = ground.path("hidden").display().to_string();
        let entry = format!("\"{beside}\" = \"all\"\n");
        let policy = gated(ground, &(entry + &rule(ground, "read", "offset = 4, length = 4")))?;
        let copy = format!("{beside}={}", ground.path("changes").display());
        let script = format!(
            "echo changed > {beside}/secret; cat {beside}/secret; printf 0123456789 > f; dd if=f bs=4 skip=1 count=1"
        );
        let output =
            ground.command(&["run", "--policy", &policy, "--cow", &copy, "--", "sh", "-c", &script]).output()?;
        assert_eq!(text(&output.stdout), "changed\n", "{output:?}");
        assert!(text(&output.stderr).contains("Permission denied"), "{output:?}");
        assert_eq!(fs::read_to_string(ground.path("hidden/secret"))?, "secret\n");
        Ok(())
    })
}

#[test]
fn another_policy_holds_at_once_behind_a_gate_and_around_it() -> Outcome {
    as_each_serving(|ground| {
        let policy = gated(ground, &rule(ground, "read", "offset = 4, length = 4"))?;
        let script = "printf 0123456789 > f; while :; do dd if=f bs=2 count=1 status=none 2>> told; cat kept/file > /dev/null 2>> kept_told; sleep 0.01; done # gated";
        let mut child = ground.start(&[], script)?;
        until("the program", || Ok(ground.path("work/kept_told").exists()))?;
        let id = id_of(ground, "# gated")?;
        ground.policy("other.toml", &(ground.usual() + &rule(ground, "read", "offset = 0, length = 2")))?;
        let other = ground.path("other.toml").display().to_string();
        let set = ground.command(&["run", "policy", "set", &id, &other]).output()?;
        assert!(set.status.success(), "{set:?}");
        until("a refusal", || Ok(fs::read_to_string(ground.path("work/told"))?.contains("Permission denied")))?;
        // Without any rule of each call, the same gate decides by what is left.
        ground.policy("plain.toml", &ground.usual().replace("kept\" = \"read\"", "kept\" = \"none\""))?;
        let plain = ground.path("plain.toml").display().to_string();
        let set = ground.command(&["run", "policy", "set", &id, &plain]).output()?;
        assert!(set.status.success(), "{set:?}");
        until("a refusal", || Ok(fs::read_to_string(ground.path("work/kept_told"))?.contains("Permission denied")))?;
        // What no gate holds is refused, and the policy stays.
        ground.policy("beyond.toml", &(ground.usual() + &rule(ground, "mmap", "range = [0, 1]")))?;
        let beyond = ground.path("beyond.toml").display().to_string();
        assert!(!ground.command(&["run", "policy", "set", &id, &beyond]).status()?.success());
        ground.command(&["run", "kill", &id]).status()?;
        assert_eq!(child.wait()?.code(), Some(128 + 9), "{policy}");
        Ok(())
    })
}

#[test]
fn whoever_kills_the_supervisor_kills_the_program_also_in_the_middle_of_a_call_behind_a_gate() -> Outcome {
    as_each_serving(|ground| {
        gated(ground, &rule(ground, "read", "offset = 4, length = 4"))?;
        for turn in 0..10 {
            let script = format!("trap '' TERM HUP; while :; do echo x >> log{turn}; cat log{turn} > /dev/null; done");
            let mut child = ground.start(&[], &script)?;
            let log = ground.path(&format!("work/log{turn}"));
            let length = || fs::metadata(&log).map_or(0, |it| it.len());
            until("the program", || Ok(length() > 20))?;
            let children = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
            let init: i32 = children()?.split_whitespace().next().ok_or("no first process")?.parse()?;
            child.kill()?;
            child.wait()?;
            until("the end of all", || Ok(!std::path::Path::new(&format!("/proc/{init}")).exists()))?;
            let after = length();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(length(), after);
        }
        Ok(())
    })
}

#[test]
fn a_thousand_starts_behind_gates_leave_nothing() -> Outcome {
    // As an ordinary account it is a matter of the machine whether it may serve; the other tests show that it works there.
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if !alone("a_thousand_starts_behind_gates_leave_nothing")? {
        return Ok(());
    }
    let ground = Ground::new(false)?;
    gated(&ground, &rule(&ground, "read", "offset = 4, length = 4"))?;
    // Those of other suites are among them, which are few.
    let served = || fs::read_dir("/sys/fs/fuse/connections").map_or(0, Iterator::count);
    let before = (mounts(), served());
    fs::write(ground.path("work/f"), "0123")?;
    for turn in 0..1000 {
        let output = ground.run(&["/bin/cat", "f"])?;
        assert_eq!(text(&output.stdout), "0123", "{turn}: {output:?}");
    }
    until("the end of the last", || Ok(mounts() == before.0 && served() < before.1 + 100))?;
    let names: Vec<_> =
        fs::read_dir(ground.path("work"))?.map(|it| it.map(|it| it.file_name())).collect::<Result<_, _>>()?;
    assert_eq!(names.len(), 2, "{names:?}");
    Ok(())
}

/// `dd` reads with the lengths and offsets it is told, and its own program may not.
#[test]
fn a_pair_of_the_older_form_with_arguments_of_reading_is_held() -> Outcome {
    as_each_serving(|ground| {
        let work = ground.path("work");
        fs::write(ground.path("model.txt"), MODEL)?;
        fs::write(ground.path("policy.txt"), format!("p, dd, {}, read, (4,4), dir, deny\n", work.display()))?;
        let paths = ["model.txt", "policy.txt", "work"].map(|name| ground.path(name).display().to_string());
        fs::write(work.join("f"), "0123456789")?;
        let pair = ["run", "--model", &paths[0], "--rules", &paths[1], "--mounted", &paths[2], "--"];
        let read = |skip: &str| -> Outcome<String> {
            let file = format!("if={}", work.join("f").display());
            let mut command: Command =
                ground.command(&[&pair[..], &["dd", &file, "bs=4", "count=1", skip, "status=none"]].concat());
            let output = command.output()?;
            Ok(text(&output.stdout) + &text(&output.stderr))
        };
        assert_eq!(read("skip=0")?, "0123");
        assert!(read("skip=1")?.contains("Permission denied"));
        assert_eq!(read("skip=2")?, "89");
        Ok(())
    })
}

const MODEL: &str = "[request_definition]\nr = sub, obj, act, args\n\n[policy_definition]\np = sub, obj, act, args\n\n[policy_effect]\ne = !some(where (p.eft == deny))\n\n[matchers]\nm = r.sub == p.sub && r.obj == p.obj && r.act == p.act && r.args == p.args\n";
