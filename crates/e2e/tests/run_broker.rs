//! Confined programs that a broker holds, through the built program.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{id_of, json};
use holdfast_testkit::confined::{as_each, text, until};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Patterns and single operations, which mounts cannot hold.
#[test]
fn a_broker_holds_what_mounts_cannot_and_writes_down_what_it_refuses() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work");
        let rules = format!(
            "[[rule]]\ndeny = [\"unlink\", \"rename\"]\npath = \"{0}/*.log\"\n[[rule]]\ndeny = [\"read\"]\npath = \"{0}/*.key\"\nprogram = \"cat\"\n",
            work.display()
        );
        ground.policy("policy.toml", &(ground.usual() + &rules))?;
        let [policy, audit] = ["policy.toml", "runtime/audit"].map(|name| ground.path(name).display().to_string());
        let explained = json(ground, &["policy", "explain", &policy])?;
        assert_eq!((&explained["mechanism"], &explained["exact"]), (&Value::from("broker"), &Value::from(true)));
        let script = "echo 1 > a.log; echo 2 > b; echo 3 > c.key; rm a.log; mv a.log d; rm b; cat c.key; head -n1 c.key; cat a.log; cat kept/file; echo x > kept/file; cat /etc/passwd; ls /home; cat /proc/self/comm; echo x > /dev/null";
        let output =
            ground.command(&["run", "--policy", &policy, "--audit", &audit, "--", "sh", "-c", script]).output()?;
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(said, "3\n1\nkept\ncat\n", "{errors}");
        assert!(work.join("a.log").exists() && !work.join("b").exists() && !work.join("d").exists(), "{errors}");
        assert_eq!(fs::read_to_string(work.join("kept/file"))?, "kept\n");
        let lines: Vec<Value> =
            fs::read_to_string(&audit)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert!(lines.iter().all(|line| line["allowed"] == false), "{lines:?}");
        let refused = |operation: &str, path: &str| {
            let is_it = |line: &&Value| {
                line["operation"] == operation && line["path"].as_str().is_some_and(|at| at.ends_with(path))
            };
            lines.iter().find(is_it).cloned().ok_or_else(|| format!("{operation} {path}: {lines:#?}"))
        };
        let unlink = refused("unlink", "/a.log")?;
        assert!(
            unlink["rule"]["number"].is_u64() && unlink["program"].as_str().is_some_and(|it| it.ends_with("/rm")),
            "{unlink}"
        );
        refused("rename", "/a.log")?;
        refused("read", "/c.key")?;
        refused("write", "kept/file").or_else(|_| refused("truncate", "kept/file"))?;
        refused("lookup", "/etc/passwd")?;
        Ok(())
    })
}

#[test]
fn under_a_broker_streams_are_handed_over_another_policy_holds_at_once_and_refusals_have_an_end() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let rule = |denied: &str| format!("[[rule]]\ndeny = [\"{denied}\"]\npath = \"{work}/*.log\"\n");
        ground.policy("policy.toml", &(ground.usual() + &rule("unlink")))?;
        let policy = ground.path("policy.toml").display().to_string();
        let (from, to) = (ground.path("hidden/secret"), ground.path("out"));
        let mut command = ground.command(&["run", "--policy", &policy, "--", "cat"]);
        let output = command.stdin(fs::File::open(from)?).stdout(fs::File::create(&to)?).output()?;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(to)?, "secret\n");
        let script =
            "while :; do echo x > x.log; rm x.log 2>/dev/null || echo kept >> told; sleep 0.01; done # brokered";
        let mut child = ground.start(&[], script)?;
        until("a refusal", || Ok(ground.path("work/told").exists()))?;
        let id = id_of(ground, "# brokered")?;
        ground.policy("looser.toml", &(ground.usual() + &rule("setattr")))?;
        let looser = ground.path("looser.toml").display().to_string();
        let set = ground.command(&["run", "policy", "set", &id, &looser]).output()?;
        assert!(set.status.success(), "{set:?}");
        until("no more refusals", || {
            let before = fs::metadata(ground.path("work/told"))?.len();
            std::thread::sleep(Duration::from_millis(200));
            Ok(fs::metadata(ground.path("work/told"))?.len() == before)
        })?;
        ground.command(&["run", "kill", &id]).status()?;
        assert_eq!(child.wait()?.code(), Some(128 + 9));
        let mut child = ground.start(&["--kill-after", "5"], "trap '' TERM; while :; do cat /etc/passwd; done")?;
        assert_eq!(child.wait()?.code(), Some(128 + 9));
        assert!(child.errors()?.contains("it was killed"));
        Ok(())
    })
}

#[test]
fn after_another_policy_was_set_the_log_has_the_words_of_that_one() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let rule = |pattern: &str| format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/{pattern}\"\n");
        ground.policy("policy.toml", &(ground.usual() + &rule("*.first")))?;
        ground.policy("second.toml", &(ground.usual() + &rule("*.second")))?;
        let [audit, second] = ["runtime/audit", "second.toml"].map(|name| ground.path(name).display().to_string());
        let script = "touch a.first b.second; rm a.first; touch ready; while [ ! -e go ]; do sleep 0.01; done; rm b.second; rm a.first # words";
        let mut child = ground.start(&["--audit", &audit], script)?;
        until("the program", || Ok(ground.path("work/ready").exists()))?;
        let id = id_of(ground, "# words")?;
        let set = ground.command(&["run", "policy", "set", &id, &second]).output()?;
        assert!(set.status.success(), "{set:?}");
        fs::write(ground.path("work/go"), "")?;
        child.wait()?;
        let lines: Vec<Value> =
            fs::read_to_string(&audit)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let unlinks: Vec<_> = lines.iter().filter(|line| line["operation"] == "unlink").collect();
        let words = |line: &Value| line["rule"]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(unlinks.len(), 2, "{lines:#?}");
        assert!(words(unlinks[0]).contains("*.first") && words(unlinks[1]).contains("*.second"), "{unlinks:#?}");
        Ok(())
    })
}

#[test]
fn ports_are_held_under_a_broker_as_well() -> Outcome {
    as_each(|ground| {
        let listeners = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0"));
        let [allowed, other] = listeners;
        let (allowed, other) = (allowed?, other?);
        let free = std::net::TcpListener::bind("127.0.0.1:0")?;
        let [to, not_to, bound] = [&allowed, &other, &free].map(|one| one.local_addr().map(|at| at.port()));
        let (to, not_to, bound) = (to?, not_to?, bound?);
        drop(free);
        let work = ground.path("work").display().to_string();
        let rule = format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/*.log\"\n");
        let network = format!("network = {{ tcp-connect = [{to}], tcp-bind = [{bound}] }}\n");
        ground.policy("policy.toml", &(network + &ground.usual() + &rule))?;
        let policy = ground.path("policy.toml").display().to_string();
        assert_eq!(json(ground, &["policy", "explain", &policy])?["mechanism"], "broker");
        let program = format!(
            "
import socket, errno
def say(what):
    try: what(); print('ok')
    except OSError as error: print(errno.errorcode[error.errno])
say(lambda: socket.create_connection(('127.0.0.1', {to}), 5))
say(lambda: socket.create_connection(('127.0.0.1', {not_to}), 5))
say(lambda: socket.create_server(('127.0.0.1', {bound})))
say(lambda: socket.create_server(('127.0.0.1', 0)))
say(lambda: socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {not_to})))
say(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
say(lambda: socket.socket(socket.AF_UNIX).bind('\\0name'))
say(lambda: socket.socket(socket.AF_UNIX).connect('\\0name'))
"
        );
        let output = ground.run(&["/usr/bin/python3", "-S", "-E", "-c", &program])?;
        assert_eq!(text(&output.stdout), "ok\nEPERM\nok\nEPERM\nEPERM\nEAFNOSUPPORT\nEPERM\nEPERM\n", "{output:?}");
        Ok(())
    })
}
