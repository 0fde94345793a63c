//! What a running confined program was refused, through the built program.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{id_of, json};
use holdfast_testkit::confined::{Ground, as_each, as_each_serving, text, until};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Patterns, which mounts cannot hold.
fn brokered(ground: &Ground) -> Outcome {
    let work = ground.path("work").display().to_string();
    ground
        .policy("policy.toml", &(ground.usual() + &format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/*.log\"\n")))
}

fn is_there(ground: &Ground, name: &str) -> Outcome {
    until(name, || Ok(ground.path(name).exists()))
}

#[test]
fn what_it_was_refused_so_far_is_shown_with_counters_without_any_file() -> Outcome {
    as_each(|ground| {
        brokered(ground)?;
        let script = "touch a.log; rm a.log; touch ready; while [ ! -e go ]; do sleep 0.01; done # shown";
        let mut child = ground.start(&[], script)?;
        is_there(ground, "work/ready")?;
        let id = id_of(ground, "# shown")?;
        let log = json(ground, &["run", "logs", &id])?;
        let records = log["records"].as_array().ok_or("no records")?;
        let unlink = records.iter().find(|one| one["operation"] == "unlink").ok_or_else(|| log.to_string())?;
        assert_eq!(
            (&unlink["allowed"], &unlink["mechanism"], &unlink["rule"]["number"]),
            (&Value::from(false), &Value::from("broker"), &Value::from(8))
        );
        assert_eq!(unlink["path"], ground.path("work/a.log").display().to_string());
        assert!(unlink["program"].as_str().is_some_and(|program| program.ends_with("/rm")), "{unlink}");
        assert_eq!((&log["seen"], &log["missed"]), (&Value::from("everywhere"), &Value::from(0)));
        // As many are told as were counted, and nothing that was allowed is among them.
        assert_eq!(log["counters"]["denied"].as_u64(), Some(records.len() as u64), "{log}");
        assert!(log["counters"]["calls"].as_u64() > Some(10), "{log}");
        assert!(records.iter().all(|one| one["allowed"] == false));
        let words = text(&ground.said(&["run", "logs", &id])?);
        assert!(words.contains("refused  unlink") && words.contains("a.log") && words.contains(" calls\n"), "{words}");
        fs::write(ground.path("work/go"), "")?;
        assert!(child.wait()?.success());
        Ok(())
    })
}

#[test]
fn whoever_follows_is_told_of_each_refusal_to_the_last_and_then_of_the_end() -> Outcome {
    as_each(|ground| {
        brokered(ground)?;
        let script = "touch a.log; rm a.log; touch ready; while [ ! -e go ]; do sleep 0.01; done; i=0; while [ $i -lt 50 ]; do i=$((i+1)); rm a.log; done # followed";
        let mut child = ground.start(&["--audit", "/dev/null", "--audit-all"], script)?;
        is_there(ground, "work/ready")?;
        let id = id_of(ground, "# followed")?;
        let (told, words) = (ground.path("out"), ["run", "logs", &id, "--follow", "--json"]);
        let mut follower = ground.command(&words).stdout(fs::File::create(&told)?).spawn()?;
        // One that is stopped, and reads nothing, holds nobody up.
        let mut idle = ground.command(&["run", "logs", &id, "--follow"]).stdout(Stdio::piped()).spawn()?;
        fs::write(ground.path("work/go"), "")?;
        child.wait()?;
        assert!(follower.wait()?.success());
        let lines: Vec<Value> =
            fs::read_to_string(&told)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let unlinks = lines.iter().filter(|line| line["operation"] == "unlink" && line["allowed"] == false).count();
        let missed: u64 = lines.iter().filter_map(|line| line["missed"].as_u64()).sum();
        assert!(unlinks == 51 || missed > 0, "{unlinks} {missed}");
        let end = lines.last().ok_or("nothing was said")?;
        assert_eq!(
            (&end["ended"], &end["counters"]["denied"].as_u64().is_some_and(|it| it >= 51)),
            (&true.into(), &true)
        );
        // What was allowed is among it, since the log has it.
        assert!(lines.iter().any(|line| line["allowed"] == true));
        idle.kill()?;
        idle.wait()?;
        Ok(())
    })
}

#[test]
fn a_flood_of_refusals_leaves_the_last_and_the_number_of_those_before() -> Outcome {
    let ground = Ground::new(false)?;
    brokered(&ground)?;
    let program = "import os, time\nfor number in range(3000):\n  try: os.stat('/none%d' % number)\n  except OSError: pass\nopen('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01) # flood";
    let policy = ground.path("policy.toml").display().to_string();
    let words = ["run", "--policy", &policy, "--", "/usr/bin/python3", "-S", "-E", "-c", program];
    let mut child = ground.command(&words).spawn()?;
    is_there(&ground, "work/ready")?;
    let log = json(&ground, &["run", "logs", &id_of(&ground, "# flood")?])?;
    fs::write(ground.path("work/go"), "")?;
    child.wait()?;
    let records = log["records"].as_array().ok_or("no records")?;
    let (kept, missed) = (records.len() as u64, log["missed"].as_u64().ok_or("no number")?);
    assert_eq!((kept, Some(kept + missed)), (1000, log["counters"]["denied"].as_u64()));
    assert!(records.iter().any(|one| one["path"] == "/none2999"), "the last are kept");
    Ok(())
}

#[test]
fn where_mounts_hold_the_policy_it_is_said_that_nothing_is_seen() -> Outcome {
    as_each(|ground| {
        let mut child = ground.start(&[], "touch ready; while [ ! -e go ]; do sleep 0.01; done # mounted")?;
        is_there(ground, "work/ready")?;
        let id = id_of(ground, "# mounted")?;
        for more in [&["--json"][..], &["--json", "--follow"], &[]] {
            let output = ground.command(&[&["run", "logs", &id], more].concat()).output()?;
            assert!(output.status.success() && text(&output.stderr).contains("mounts hold"), "{more:?} {output:?}");
        }
        let log = json(ground, &["run", "logs", &id])?;
        assert_eq!((&log["seen"], &log["counters"]), (&Value::from("nowhere"), &Value::Null));
        fs::write(ground.path("work/go"), "")?;
        assert!(child.wait()?.success());
        let gone = ground.command(&["run", "logs", &id]).output()?;
        assert!(gone.status.code() == Some(66) && text(&gone.stderr).contains(&format!("program {id}")), "{gone:?}");
        let word = ground.command(&["run", "logs", "none"]).output()?;
        assert_eq!(word.status.code(), Some(64), "{word:?}");
        Ok(())
    })
}

#[test]
fn behind_a_gate_the_log_is_of_its_folder() -> Outcome {
    as_each_serving(|ground| {
        let work = ground.path("work").display().to_string();
        let rule =
            format!("[[rule]]\ndeny = [\"read\"]\npath = \"{work}\"\narguments = {{ offset = 4, length = 4 }}\n");
        ground.policy("policy.toml", &(ground.usual() + &rule))?;
        let script = "printf 0123456789 > f; dd if=f bs=4 count=1 skip=1 status=none; touch ready; while [ ! -e go ]; do sleep 0.01; done # behind";
        let mut child = ground.start(&[], script)?;
        is_there(ground, "work/ready")?;
        let log = json(ground, &["run", "logs", &id_of(ground, "# behind")?])?;
        assert_eq!(log["seen"]["in"], Value::from(vec![work.clone()]));
        let records = log["records"].as_array().ok_or("no records")?;
        assert!(records.iter().any(|one| one["operation"] == "read" && one["mechanism"] == "gate"), "{log}");
        fs::write(ground.path("work/go"), "")?;
        child.wait()?;
        Ok(())
    })
}
