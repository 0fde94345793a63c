//! Limits of all processes of a confined program together: by control groups where this machine lets the account make some, counted by the supervisor where not and where that is
//! said to be enough, and else refused.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{explained, held};
use holdfast_testkit::confined::{Ground, as_each, text, until};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

const MIB: u64 = 1 << 20;

/// So many children hold so many MiB each, at the same time; then it ends by itself. What the parent has before that is theirs as well.
const HOLDING: &str = "
import mmap, os, sys
shared, children, each = (int(word) for word in sys.argv[1:])
def touched(mib):
    memory = mmap.mmap(-1, (mib << 20) + 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(memory), 4096): memory[at] = 1
    return memory
before = touched(shared)
go, ready = os.pipe(), os.pipe()
for _ in range(children):
    if os.fork() == 0:
        memory = touched(each)
        os.write(ready[1], b'x')
        os.read(go[0], 1)
        os._exit(0)
for _ in range(children): os.read(ready[0], 1)
import time
time.sleep(0.2)
os.write(go[1], b'x' * children)
for _ in range(children): os.wait()
print('all of it')
";

/// Runs Python under a policy with these limits.
fn python(ground: &Ground, limits: &str, more: &[&str], program: &str, arguments: &[&str]) -> Outcome<Output> {
    ground.policy("policy.toml", &format!("{}[limits]\n{limits}\n", ground.usual()))?;
    let policy = ground.path("policy.toml").display().to_string();
    let begin = [&["run", "--policy", &policy], more, &["--", "python3", "-S", "-E", "-c", program]].concat();
    Ok(ground.command(&[&begin, arguments].concat()).output()?)
}

/// The options with which limits are held here as well as they can be. Where that is not exactly, nothing starts without them, and with them it is said.
fn as_held(ground: &Ground, limits: &str) -> Outcome<(&'static [&'static str], bool)> {
    ground.policy("policy.toml", &format!("{}[limits]\n{limits}\n", ground.usual()))?;
    if explained(ground, "policy.toml")?.iter().all(held) {
        return Ok((&[], true));
    }
    let refused = ground.run(&["sh", "-c", "touch ran"])?;
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("control group") && said.contains("--allow-degraded"), "{said}");
    assert!(!ground.path("work/ran").exists());
    Ok((&["--allow-degraded"], false))
}

#[test]
fn many_that_together_have_too_much_memory_are_ended_and_it_is_said() -> Outcome {
    as_each(|ground| {
        let limits = "memory = \"256M\"";
        let (more, exact) = as_held(ground, limits)?;
        // None has too much by itself.
        let output = python(ground, limits, more, HOLDING, &["1", "12", "32"])?;
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(128 + 9), &b""[..]), "{output:?}");
        assert!(said.contains("ended by its limit: memory"), "{said}");
        assert_eq!(said.contains("added up by the supervisor"), !exact, "{said}");
        // What is shared is there once.
        for arguments in [["1", "4", "16"], ["100", "8", "4"]] {
            let output = python(ground, limits, more, HOLDING, &arguments)?;
            assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "all of it\n"), "{output:?}");
        }
        Ok(())
    })
}

/// Each in a process of its own, until it is ended; what it has used by then is in a file of its own.
const BURNING: &str = "
import os, time
for _ in range(3):
    if os.fork() == 0: break
told = 0
with open(f'used.{os.getpid()}', 'w') as file:
    while True:
        used = time.process_time()
        if used > told + 0.01:
            told = used
            file.seek(0)
            file.write(f'{used:.6f}')
            file.flush()
";

/// Seconds of processor time that they say they have used. What the kernel counts for this process leaves out whom nobody waited for.
fn used(ground: &Ground) -> Outcome<f64> {
    let mut sum = 0.0;
    for entry in fs::read_dir(ground.path("work"))? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|stem| stem == "used") {
            // One that had hardly begun has written nothing.
            sum += fs::read_to_string(path)?.parse::<f64>().unwrap_or_default();
        }
    }
    Ok(sum)
}

#[test]
fn the_processor_time_of_many_together_is_bounded() -> Outcome {
    as_each(|ground| {
        let limits = "cpu-seconds = 2";
        let (more, _) = as_held(ground, limits)?;
        let output = python(ground, limits, more, BURNING, &[])?;
        let used = used(ground)?;
        assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
        assert!(text(&output.stderr).contains("ended by its limit: processor time"), "{output:?}");
        // Each alone may have two seconds, so without a sum it would be eight.
        assert!((1.5..3.0).contains(&used), "{used} s");
        Ok(())
    })
}

/// Uses a second of processor time with two processes, and says how long that took.
const SHARING: &str = "
import os, time
began = time.monotonic()
child = os.fork()
while time.process_time() < 0.5: pass
if child == 0: os._exit(0)
os.wait()
print(time.monotonic() - began)
";

#[test]
fn the_share_of_processors_is_held() -> Outcome {
    as_each(|ground| {
        let limits = "cpus = 0.25";
        let (more, exact) = as_held(ground, limits)?;
        let output = python(ground, limits, more, SHARING, &[])?;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        if !exact {
            assert!(text(&output.stderr).contains("processors at a time are not bounded"), "{output:?}");
            return Ok(());
        }
        let share = 1.0 / text(&output.stdout).trim().parse::<f64>()?;
        // The first period and the last may be had whole.
        assert!(share < 0.3, "{share} processors");
        Ok(())
    })
}

#[test]
fn what_bounds_a_process_needs_no_group() -> Outcome {
    as_each(|ground| {
        let limits = "process-memory = \"128M\"\nprocess-cpu-seconds = 1\nopen-files = 64";
        ground.policy("policy.toml", &format!("{}[limits]\n{limits}\n", ground.usual()))?;
        let all = explained(ground, "policy.toml")?;
        assert!(all.len() == 3 && all.iter().all(held), "{all:?}");
        let refused = "
try: bytearray(256 << 20)
except MemoryError: print('refused', flush=True)
while True: pass
";
        let output = python(ground, limits, &[], refused, &[])?;
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(128 + 24), "refused\n"), "{output:?}");
        assert!(text(&output.stderr).contains("processor time"), "{output:?}");
        Ok(())
    })
}

#[test]
fn every_limit_says_what_it_bounds_and_what_holds_it() -> Outcome {
    as_each(|ground| {
        let limits =
            "memory = \"1G\"\ncpu-seconds = 60\ncpus = 1.5\nprocesses = 20\nseconds = 5\nprocess-memory = \"512M\"";
        ground.policy("policy.toml", &format!("{}[limits]\n{limits}\n", ground.usual()))?;
        let all = explained(ground, "policy.toml")?;
        let amounts: Vec<_> = all.iter().map(|one| (one["limit"].as_str(), one["most"].as_f64())).collect();
        let memory = (1024 * MIB) as f64;
        let expected =
            [("memory", memory), ("cpu-seconds", 60.0), ("cpus", 1.5), ("processes", 20.0), ("seconds", 5.0)];
        let expected = expected.into_iter().chain([("process-memory", memory / 2.0)]);
        assert_eq!(amounts, expected.map(|(name, most)| (Some(name), Some(most))).collect::<Vec<_>>());
        for one in &all {
            let says = if held(one) { &one["held_by"] } else { &one["not_held"] };
            assert!(says.as_str().is_some_and(|says| !says.is_empty()), "{one}");
        }
        let path = ground.path("policy.toml").display().to_string();
        let output = ground.command(&["policy", "explain", &path]).output()?;
        assert_eq!(output.status.success(), all.iter().all(held), "{output:?}");
        assert_eq!(text(&output.stdout).contains("--allow-degraded"), !all.iter().all(held), "{output:?}");
        Ok(())
    })
}

/// Control groups that nobody holds.
fn left_over() -> BTreeSet<PathBuf> {
    fn look(folder: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            let path = entry.path();
            let ours = entry.file_name().to_string_lossy().starts_with("holdfast-");
            let free = |folder: fs::File| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
            if ours && fs::File::open(&path).is_ok_and(free) {
                found.insert(path.clone());
            }
            look(&path, found);
        }
    }
    let mut found = BTreeSet::new();
    look(Path::new("/sys/fs/cgroup"), &mut found);
    found
}

#[test]
fn nothing_of_a_group_is_left_after_many_starts_or_a_killed_supervisor() -> Outcome {
    const STARTS: usize = 200;
    as_each(|ground| {
        let limits = "memory = \"1G\"\ncpu-seconds = 60\ncpus = 2\nprocesses = 100";
        let (_, exact) = as_held(ground, limits)?;
        if !exact {
            return Ok(());
        }
        let before = left_over();
        let news = || left_over().difference(&before).cloned().collect::<Vec<_>>();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..STARTS / 4 {
                        let output = ground.run(&["true"]).expect("it runs");
                        assert!(output.status.success(), "{output:?}");
                    }
                });
            }
        });
        assert_eq!(news(), Vec::<PathBuf>::new());
        let mut child = ground.start(&[], "touch ready; while :; do sleep 1000; done")?;
        until("the program", || Ok(ground.path("work/ready").exists()))?;
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(9));
        until("what it left", || Ok(!news().is_empty()))?;
        let empty = |path: &PathBuf| fs::read_to_string(path.join("cgroup.procs")).is_ok_and(|all| all.is_empty());
        until("the end of its processes", || Ok(news().iter().all(empty)))?;
        assert!(ground.run(&["true"])?.status.success());
        assert_eq!(news(), Vec::<PathBuf>::new(), "the next start removes what nobody holds");
        Ok(())
    })
}
