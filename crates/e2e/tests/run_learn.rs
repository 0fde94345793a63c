//! `holdfast policy learn`: what real programs need is learned, is enough for them, and is not more than a person would have allowed.

use holdfast_testkit::confined::{Ground, Outcome, as_each, text};
use std::fs;
use std::process::{Command, Output};

/// Programs are found where every machine has them, whoever runs the tests.
fn with_path<'a>(command: &'a mut Command, ground: &Ground) -> &'a mut Command {
    command
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", ground.path("nowhere"))
        .env_remove("TMPDIR")
        .env("LC_ALL", "C.UTF-8")
}

fn learned(ground: &Ground, name: &str, more: &[&str], script: &str) -> Outcome<Output> {
    let policy = ground.path(&format!("changes/{name}.toml")).display().to_string();
    let words = [&["policy", "learn", "-o", &*policy], more, &["--", "sh", "-c", script]].concat();
    let mut command = ground.command(&words);
    let output = with_path(&mut command, ground).current_dir(ground.path("work")).output()?;
    assert!(output.status.success(), "{name}: {output:?}");
    Ok(output)
}

fn under(ground: &Ground, name: &str, script: &str) -> Outcome<Output> {
    let policy = ground.path(&format!("changes/{name}.toml")).display().to_string();
    let mut command = ground.command(&["run", "--policy", &policy, "--", "sh", "-c", script]);
    Ok(with_path(&mut command, ground).current_dir(ground.path("work")).output()?)
}

/// What programs do, again and again.
const WORK: [(&str, &str); 6] = [
    ("shell", "cat kept/file > out; ls; wc -l < out; rm out"),
    (
        "python",
        "python3 -c 'import json, tempfile; f = tempfile.NamedTemporaryFile(); f.write(b\"x\"); print(json.dumps(open(\"kept/file\").read()))'",
    ),
    (
        "compiler",
        "printf 'int puts(const char *); int main() { puts(\"hi\"); }' > hello.c; cc -o hello hello.c && ./hello",
    ),
    (
        "git",
        "rm -rf r; git init -q r && cd r && date +%N > f && git add f && git -c user.name=a -c user.email=a@b commit -qm message && git log --format=%s && git status --short",
    ),
    (
        "sockets",
        "rm -f s; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"s\"); s.listen(); socket.socket(socket.AF_UNIX).connect(\"s\"); print(\"met\")'",
    ),
    ("links", "ln -sfn kept way; cat way/file; mkdir -p a b; echo moved > a/f; mv a/f b/g; cat b/g; rm -r a b way"),
];

#[test]
fn what_programs_need_is_learned_and_is_enough_for_them_to_do_it_again() -> Outcome {
    as_each(|ground| {
        for (name, script) in WORK {
            let first = learned(ground, name, &[], script)?;
            let again = under(ground, name, script)?;
            let policy = fs::read_to_string(ground.path(&format!("changes/{name}.toml")))?;
            assert!(again.status.success(), "{name}: {again:?}\n{policy}");
            assert_eq!(text(&first.stdout), text(&again.stdout), "{name}\n{policy}");
            assert_eq!(policy.contains("unix-sockets = \"none\""), name != "sockets", "{name}\n{policy}");
        }
        Ok(())
    })
}

#[test]
fn what_was_not_done_is_refused_by_what_was_learned() -> Outcome {
    as_each(|ground| {
        let secret = ground.path("hidden/secret").display().to_string();
        for (name, script) in WORK {
            learned(ground, name, &[], script)?;
            let more = format!(
                "cat {secret}; cat /etc/passwd; touch {0}/new; echo x > /usr/new",
                ground.path("hidden").display()
            );
            let output = under(ground, name, &more)?;
            let policy = fs::read_to_string(ground.path(&format!("changes/{name}.toml")))?;
            assert!(output.stdout.is_empty() || !policy.contains("hidden"), "{name}: {output:?}\n{policy}");
            assert!(
                !text(&output.stdout).contains("secret") && !ground.path("hidden/new").exists(),
                "{name}\n{policy}"
            );
            assert!(policy.contains("default = \"deny\"") && !policy.contains("network"), "{name}\n{policy}");
        }
        // Each line says who needed it.
        let policy = fs::read_to_string(ground.path("changes/shell.toml"))?;
        let work = ground.path("work").display().to_string();
        let line = policy.lines().zip(policy.lines().skip(1)).find(|(_, line)| line.starts_with(&format!("{work:?}")));
        assert!(line.is_some_and(|(why, _)| why.contains("rm") && why.contains("made or removed")), "{policy}");
        Ok(())
    })
}

#[test]
fn exactly_what_was_seen_is_allowed_if_that_is_asked_for() -> Outcome {
    as_each(|ground| {
        learned(ground, "exact", &["--exact"], "cat kept/file")?;
        let done = under(ground, "exact", "cat kept/file; cat kept/file > kept/other")?;
        assert_eq!(text(&done.stdout), "kept\n", "{done:?}");
        assert!(!ground.path("work/kept/other").exists());
        fs::write(ground.path("work/kept/second"), "second\n")?;
        let done = under(ground, "exact", "cat kept/file; cat kept/second")?;
        assert!(!done.status.success() && text(&done.stdout) == "kept\n", "{done:?}");
        Ok(())
    })
}

#[test]
fn what_a_base_refuses_stays_refused_and_what_it_allows_is_kept() -> Outcome {
    as_each(|ground| {
        let base = ground.path("policy.toml").display().to_string();
        let hidden = ground.path("hidden").display().to_string();
        let script = format!("cat {hidden}/secret; echo x > kept/file; echo $TOLD; echo made > made");
        let output = learned(ground, "based", &["--base", &base], &script)?;
        assert_eq!(text(&output.stdout), "secret\nyes\n", "{output:?}");
        assert_eq!(fs::read_to_string(ground.path("work/kept/file"))?, "kept\n");
        let again = under(ground, "based", &script)?;
        assert_eq!(text(&again.stdout), "secret\nyes\n", "{again:?}");
        assert_eq!(fs::read_to_string(ground.path("work/kept/file"))?, "kept\n");
        let policy = fs::read_to_string(ground.path("changes/based.toml"))?;
        assert!(policy.contains("TOLD") && policy.contains(&format!("{hidden}/secret")), "{policy}");
        Ok(())
    })
}

#[test]
fn a_policy_that_is_there_is_not_overwritten_and_the_exit_code_is_the_program_s() -> Outcome {
    as_each(|ground| {
        let policy = ground.path("changes/p.toml").display().to_string();
        let learn =
            |script: &str| ground.command(&["policy", "learn", "-o", &policy, "--", "sh", "-c", script]).output();
        assert_eq!(learn("exit 7")?.status.code(), Some(7));
        let before = fs::read_to_string(&policy)?;
        let refused = learn(&format!("touch {}", ground.path("work/ran").display()))?;
        assert!(refused.status.code() != Some(0) && text(&refused.stderr).contains("p.toml"), "{refused:?}");
        assert!(!ground.path("work/ran").exists());
        assert_eq!(fs::read_to_string(&policy)?, before);
        let base = ground.path("changes/base.toml");
        fs::write(&base, "default = \"allow\"\n")?;
        let base = base.display().to_string();
        let refused = ground.command(&["policy", "learn", "--base", &base, "-o", "-", "--", "true"]).output()?;
        assert!(!refused.status.success() && text(&refused.stderr).contains("by default"), "{refused:?}");
        Ok(())
    })
}
