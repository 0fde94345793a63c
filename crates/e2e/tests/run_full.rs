//! Confined programs where a disk is full: what was refused is counted where it cannot be written down, and changes that cannot be made are not lost.
//!
//! The disk is a small one in memory. Whoever is not root can mount it in a namespace of its own, so each test is a script in one.

use holdfast_testkit::confined::{Ground, Outcome, text};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// Runs a script with a disk of so many bytes mounted at `$DISK`. `$HOLDFAST` is the program under test, `$GROUND` the folder.
fn with_disk(ground: &Ground, bytes: u32, script: &str) -> Outcome<Output> {
    let disk = ground.path("disk");
    fs::create_dir(&disk)?;
    let script = format!("set -e\nmount -t tmpfs -o size={bytes} small \"$DISK\"\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.env("DISK", disk).env("HOLDFAST", ground.program()).env("GROUND", ground.path("."));
    Ok(command.env("XDG_RUNTIME_DIR", ground.path("runtime")).current_dir("/").output()?)
}

/// A script that waits for a file, for as long as anybody would.
const AWAIT: &str =
    "await() { i=0; while [ ! -e \"$1\" ]; do i=$((i + 1)); [ $i -lt 2000 ] || exit 99; sleep 0.01; done; }\n";

#[test]
fn refusals_that_cannot_be_written_down_are_counted_and_the_number_is_written_when_there_is_room() -> Outcome {
    let ground = Ground::new(false)?;
    let confined = format!("{AWAIT}cat /etc/passwd; cat /etc/group; touch full; await go; cat /etc/hostname; exit 5");
    fs::write(ground.path("confined.sh"), confined)?;
    ground.policy("policy.toml", &format!("{}{:?} = \"read\"\n", ground.usual(), ground.path("confined.sh")))?;
    let script = format!(
        "{AWAIT}
cd \"$GROUND\"
: > \"$DISK/audit\"
cat /dev/zero > \"$DISK/fill\" 2> /dev/null || true
\"$HOLDFAST\" run --policy policy.toml --audit \"$DISK/audit\" -- sh \"$GROUND/confined.sh\" 2> errors &
await work/full
test ! -s \"$DISK/audit\"
rm \"$DISK/fill\"
touch work/go
code=0; wait $! || code=$?
cp \"$DISK/audit\" audit
exit $code"
    );
    let output = with_disk(&ground, 65536, &script)?;
    let errors = fs::read_to_string(ground.path("errors")).unwrap_or_default();
    assert_eq!(output.status.code(), Some(5), "{output:?}\n{errors}");
    let log = fs::read_to_string(ground.path("audit"))?;
    let lines: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let missing = lines[0]["unwritten"].as_u64().ok_or("no number")?;
    assert!(missing >= 2, "{log}");
    assert!(lines.iter().skip(1).any(|line| line["path"] == "/etc/hostname"), "{log}");
    assert!(errors.contains(&format!("{missing} lines of the log of refusals could not be written")), "{errors}");
    Ok(())
}

#[test]
fn a_log_that_takes_nothing_at_all_is_told_of_at_the_end_and_the_exit_code_is_the_program_s() -> Outcome {
    let ground = Ground::new(false)?;
    let policy = ground.path("policy.toml").display().to_string();
    let script = "cat /etc/passwd; exit 6";
    let words = ["run", "--policy", &*policy, "--audit", "/dev/full", "--", "sh", "-c", script];
    let output = ground.command(&words).output()?;
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(text(&output.stderr).contains("lines of the log of refusals could not be written"), "{output:?}");
    Ok(())
}

#[test]
fn changes_that_do_not_fit_are_not_lost_and_are_made_when_there_is_room() -> Outcome {
    let ground = Ground::new(false)?;
    let disk = ground.path("disk").display().to_string();
    ground.policy(
        "policy.toml",
        &format!(
            "directory = \"{disk}/work\"\ndevices = [\"zero\"]\n[files]\n{}\"{disk}/work\" = \"all\"\n",
            holdfast_testkit::confined::SYSTEM
        ),
    )?;
    let script = "
cd \"$GROUND\"
mkdir \"$DISK/work\"
echo old > \"$DISK/work/kept\"
echo gone > \"$DISK/work/removed\"
of=\"$DISK/work=$GROUND/changes\"
\"$HOLDFAST\" run --policy policy.toml --cow \"$of\" -- sh -c 'head -c 100000 /dev/zero > big; echo new > kept; echo small > small; rm removed'
\"$HOLDFAST\" run diff \"$of\" > before
code=0; \"$HOLDFAST\" run commit \"$of\" 2> errors || code=$?
echo $code > code
mount -o remount,size=1048576 \"$DISK\"
\"$HOLDFAST\" run commit \"$of\" > after
(cd \"$DISK/work\"; ls -A; wc -c < big; cat kept small) > result
\"$HOLDFAST\" run diff \"$of\" > left";
    let output = with_disk(&ground, 65536, script)?;
    let read = |name: &str| fs::read_to_string(ground.path(name)).unwrap_or_default();
    let errors = read("errors");
    assert!(output.status.success(), "{output:?}\n{errors}");
    assert_ne!(read("code"), "0\n", "{errors}");
    assert!(errors.contains("big") && errors.contains("No space left"), "{errors}");
    assert_eq!(read("result"), "big\nkept\nsmall\n100000\nnew\nsmall\n", "{}", read("before"));
    assert_eq!(read("left"), "nothing was changed\n");
    Ok(())
}

#[test]
fn a_function_that_does_not_fit_is_not_deployed_and_the_one_before_goes_on() -> Outcome {
    let ground = Ground::new(false)?;
    let deploy = "\"$HOLDFAST\" function deploy code --name f --functions \"$DISK/store\"";
    let invoke = "echo asked | \"$HOLDFAST\" function invoke f --input - --functions \"$DISK/store\"";
    let script = format!(
        "cd \"$GROUND\"
mkdir code
printf 'command = [\"/bin/cat\"]\npolicy = \"p.toml\"\n' > code/function.toml
cp policy.toml code/p.toml
{deploy} > deployed
head -c 4000000 /dev/zero > code/large
code=0; {deploy} 2> errors || code=$?
test $code -ne 0
{invoke}
rm code/large
{deploy} > deployed
{invoke}
find \"$DISK/store\" -name large | wc -l"
    );
    let output = with_disk(&ground, 1 << 20, &script)?;
    let errors = fs::read_to_string(ground.path("errors")).unwrap_or_default();
    assert_eq!(text(&output.stdout), "asked\nasked\n0\n", "{output:?}\n{errors}");
    assert!(errors.contains("No space left") || errors.contains("space"), "{errors}");
    Ok(())
}
