//! Locks of programs over two mounts of a drive: who holds what, who waits, what is seen by whoever gets one, and what becomes of them when processes, mounts and servers end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_e2e::Outcome;
use holdfast_e2e::care::expect_clean;
use holdfast_e2e::knob::knob;
use holdfast_e2e::locker::Locker;
use holdfast_e2e::mounted::{Mount, run};
use holdfast_e2e::networked::Net;
use rustix::process::Signal;

/// Longest that a test waits for what should come soon.
const SOON: Duration = Duration::from_secs(20);
/// Time in which what is to wait would have come.
const A_WHILE: Duration = Duration::from_millis(400);

/// Two mounts of a served drive.
struct Two {
    net: Net,
    one: Mount,
    other: Mount,
}

impl Two {
    fn new() -> Outcome<Self> {
        Self::with(&[])
    }

    fn with(arguments: &[&str]) -> Outcome<Self> {
        let net = Net::new()?;
        Ok(Self { one: net.mount("one", arguments)?, other: net.mount("two", arguments)?, net })
    }

    /// A program on each, with the same file open.
    fn lockers(&self, name: &str) -> Outcome<(Locker, Locker)> {
        let here = Locker::at(&self.one.at().join(name))?;
        Ok((here, Locker::at(&self.other.at().join(name))?))
    }

    fn end(mut self) -> Outcome {
        self.one.stop()?;
        self.other.stop()?;
        self.net.rig.stop()?;
        expect_clean(self.net.rig.server.options())
    }
}

#[test]
fn locks_of_every_kind_hold_between_two_mounts() -> Outcome {
    let two = Two::new()?;
    for how in ["posix", "ofd", "flock"] {
        let (mut a, mut b) = two.lockers(how)?;
        let lock = |kind: &str, start: u32, length: u32| format!("lock {how} f {kind} {start} {length} try");
        let all = |kind: &str| lock(kind, 0, 0);
        a.expect(&all("w"), "ok")?;
        b.expect(&all("r"), "EAGAIN")?;
        b.expect(&all("w"), "EAGAIN")?;
        // An exclusive lock becomes a shared one, and back only if nobody else has it.
        a.expect(&all("r"), "ok")?;
        b.expect(&all("w"), "EAGAIN")?;
        b.expect(&all("r"), "ok")?;
        a.expect(&all("w"), "EAGAIN")?;
        // What flock(2) does: it lets go before it asks for more.
        a.expect(&all("r"), "ok")?;
        b.expect(&all("u"), "ok")?;
        a.expect(&all("w"), "ok")?;
        b.expect(&all("r"), "EAGAIN")?;
        a.expect(&all("u"), "ok")?;
        b.expect(&all("w"), "ok")?;
        b.expect(&all("u"), "ok")?;
        if how != "flock" {
            // Ranges, beyond the file's end as well; the middle of one is given up.
            a.expect(&lock("w", 100, 100), "ok")?;
            b.expect(&lock("w", 0, 100), "ok")?;
            b.expect(&lock("w", 200, 0), "ok")?;
            b.expect(&lock("r", 199, 1), "EAGAIN")?;
            a.expect(&lock("u", 140, 10), "ok")?;
            b.expect(&lock("w", 140, 10), "ok")?;
            b.expect(&lock("w", 139, 1), "EAGAIN")?;
            b.expect(&lock("w", 150, 1), "EAGAIN")?;
            if how == "posix" {
                a.expect("test f w 0 100", "w 0 100")?;
                b.expect("test f w 100 100", "w 100 40")?;
                b.expect("test f w 0 50", "free")?;
            }
            a.expect(&lock("u", 0, 0), "ok")?;
            b.expect(&lock("w", 0, 0), "ok")?;
        }
        // A descriptor's end is its locks' end.
        b.expect("close f", "ok")?;
        a.expect(&format!("lock {how} f w 0 0 wait"), "ok")?;
        let path = two.one.at().join(how);
        // As it is of a process's: another descriptor of the file ends those by fcntl, and no others.
        a.expect(&format!("open again {}", path.display()), "ok")?;
        a.expect("close again", "ok")?;
        b.expect(&format!("open f {}", two.other.at().join(how).display()), "ok")?;
        b.expect(&all("w"), if how == "posix" { "ok" } else { "EAGAIN" })?;
    }
    two.end()
}

#[test]
fn flock_and_record_locks_know_nothing_of_each_other() -> Outcome {
    let two = Two::new()?;
    let (mut a, mut b) = two.lockers("file")?;
    a.expect("lock flock f w 0 0 try", "ok")?;
    a.expect("lock posix f w 0 0 try", "ok")?;
    a.expect("lock flock f u 0 0 try", "ok")?;
    b.expect("lock flock f w 0 0 try", "ok")?;
    b.expect("lock posix f w 0 0 try", "EAGAIN")?;
    drop((a, b));
    two.end()
}

#[test]
fn who_waits_is_woken_by_the_other_mount_and_by_signals() -> Outcome {
    let two = Two::new()?;
    for how in ["posix", "ofd", "flock"] {
        let (mut a, mut b) = two.lockers(how)?;
        a.expect(&format!("lock {how} f w 0 0 try"), "ok")?;
        let wait = format!("lock {how} f w 0 0 wait");
        b.begin(&wait)?;
        assert_eq!(b.said(A_WHILE), None, "{how}");
        let began = Instant::now();
        a.expect(&format!("lock {how} f u 0 0 try"), "ok")?;
        assert_eq!(b.said(SOON).as_deref(), Some("ok"), "{how}");
        println!("{how}: handed over within {:?}", began.elapsed());
        // Now the other way, and a signal comes before the lock.
        a.expect("alarm 0.3", "ok")?;
        a.expect(&wait, "EINTR")?;
        let mut third = Locker::at(&two.one.at().join(how))?;
        third.begin(&wait)?;
        assert_eq!(third.said(A_WHILE), None, "{how}");
        let took = third.kill_9()?;
        assert!(took < SOON, "{how}: who waits can be killed, and took {took:?}");
        // Nothing is left of either.
        b.expect(&format!("lock {how} f u 0 0 try"), "ok")?;
        b.expect(&format!("lock {how} f w 0 0 try"), "ok")?;
        // Whoever holds it is killed.
        a.begin(&wait)?;
        assert_eq!(a.said(A_WHILE), None, "{how}");
        b.kill_9()?;
        assert_eq!(a.said(SOON).as_deref(), Some("ok"), "{how}");
    }
    two.end()
}

#[test]
fn two_processes_that_wait_for_each_other_are_told() -> Outcome {
    let two = Two::new()?;
    let (mut a, mut b) = two.lockers("file")?;
    a.expect("lock posix f w 0 1 try", "ok")?;
    b.expect("lock posix f w 1 1 try", "ok")?;
    a.begin("lock posix f w 1 1 wait")?;
    assert_eq!(a.said(A_WHILE), None);
    b.expect("lock posix f w 0 1 wait", "EDEADLK")?;
    b.expect("lock posix f u 1 1 try", "ok")?;
    assert_eq!(a.said(SOON).as_deref(), Some("ok"));
    // On one mount, of a file that nobody else has locked.
    let own = two.one.at().join("own");
    let (mut c, mut d) = (Locker::at(&own)?, Locker::at(&own)?);
    c.expect("lock posix f w 0 1 try", "ok")?;
    d.expect("lock posix f w 1 1 try", "ok")?;
    c.begin("lock posix f w 1 1 wait")?;
    assert_eq!(c.said(A_WHILE), None);
    d.expect("lock posix f w 0 1 wait", "EDEADLK")?;
    d.expect("lock posix f u 1 1 try", "ok")?;
    assert_eq!(c.said(SOON).as_deref(), Some("ok"));
    drop((a, b, c, d));
    two.end()
}

#[test]
fn who_gets_a_lock_sees_what_its_holder_wrote() -> Outcome {
    let two = Two::new()?;
    let (a, b) = two.lockers("file")?;
    let mut both = [a, b];
    for round in 0..20 {
        for text in [format!("a{round}"), format!("b{round}-longer")] {
            let [mine, other] = &mut both;
            mine.expect("lock posix f w 0 0 wait", "ok")?;
            other.begin("lock posix f r 0 0 wait")?;
            // Nothing is closed or synced.
            mine.expect(&format!("pwrite f {text}"), "ok")?;
            mine.expect("lock posix f u 0 0 try", "ok")?;
            assert_eq!(other.said(SOON).as_deref(), Some("ok"));
            let read = other.ask("read f")?;
            assert!(read.starts_with(&text), "{read} after {text}");
            other.expect("lock posix f u 0 0 try", "ok")?;
            both.reverse();
        }
    }
    let [mut a, mut b] = both;
    // Where the end is, too: neither asks for the file's size.
    let log = |mount: &Mount| mount.at().join("log").display().to_string();
    a.expect(&format!("append l {}", log(&two.one)), "ok")?;
    b.expect(&format!("append l {}", log(&two.other)), "ok")?;
    let mut wanted = String::new();
    for round in 0..100 {
        for mine in [&mut a, &mut b] {
            mine.expect("lock flock l w 0 0 wait", "ok")?;
            let text = format!("{round:03}.");
            mine.expect(&format!("write l {text}"), "ok")?;
            wanted += &text;
            if round % 2 == 0 {
                mine.expect("read l", &wanted)?;
            }
            mine.expect("lock flock l u 0 0 try", "ok")?;
        }
    }
    b.expect("lock flock l r 0 0 wait", "ok")?;
    b.expect("read l", &wanted)?;
    // What has extended attributes is written through the kernel's cache, which holds pages until it is answered.
    let marked = |mount: &Mount| mount.at().join("marked");
    fs::write(marked(&two.one), "")?;
    rustix::fs::setxattr(marked(&two.one), "user.mark", b"1", rustix::fs::XattrFlags::empty())?;
    for (mine, mount) in [(&mut a, &two.one), (&mut b, &two.other)] {
        mine.expect(&format!("append m {}", marked(mount).display()), "ok")?;
    }
    for _ in 0..20 {
        for mine in [&mut a, &mut b] {
            mine.expect("lock flock m w 0 0 wait", "ok")?;
            mine.expect("write m 1234", "ok")?;
            mine.expect("lock flock m u 0 0 try", "ok")?;
        }
    }
    drop((a, b));
    assert_eq!(fs::read(marked(&two.one))?, "1234".repeat(40).as_bytes());
    two.end()
}

/// When a change is heard of, the kernel is told to ask again about what it believed for long: while those ask who were waiting for a lock.
#[test]
fn who_waits_for_a_lock_of_a_file_that_the_kernel_believes_in_sees_what_its_holder_wrote() -> Outcome {
    let two = Two::new()?;
    let names: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    for name in &names {
        fs::write(two.one.at().join(name), "")?;
    }
    let mut a = Locker::at(&two.one.at().join("other"))?;
    for name in &names {
        a.expect(&format!("open {name} {}", two.one.at().join(name).display()), "ok")?;
    }
    for round in 1..=5 {
        // Until it believes for long again.
        std::thread::sleep(Duration::from_millis(2_500));
        let mut all = Vec::new();
        for name in &names {
            let at = two.other.at().join(name);
            fs::metadata(&at)?;
            a.expect(&format!("lock posix {name} w 0 0 wait"), "ok")?;
            let mut b = Locker::at(&at)?;
            b.begin("lock posix f r 0 0 wait")?;
            all.push(b);
        }
        let text = "text.".repeat(round);
        for name in &names {
            a.expect(&format!("pwrite {name} {text}"), "ok")?;
        }
        for name in &names {
            a.expect(&format!("lock posix {name} u 0 0 try"), "ok")?;
        }
        for b in &mut all {
            assert_eq!(b.said(SOON).as_deref(), Some("ok"));
            b.expect("read f", &text)?;
        }
    }
    drop(a);
    two.end()
}

/// Adds to a number in a file under a lock, and opens the file each time or once.
const COUNTER: &str = r"
import fcntl, os, sys
path, rounds, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
file = os.open(path, os.O_RDWR)
for _ in range(rounds):
    if how == 'open':
        os.close(file)
        file = os.open(path, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX) if how == 'flock' else fcntl.lockf(file, fcntl.LOCK_EX)
    count = int(os.pread(file, 100, 0))
    os.pwrite(file, b'%d' % (count + 1), 0)
    fcntl.flock(file, fcntl.LOCK_UN) if how == 'flock' else fcntl.lockf(file, fcntl.LOCK_UN)
";

/// `HOLDFAST_MOUNT_LOCK_ROUNDS` of each of four processes on two mounts, of each kind.
#[test]
fn of_four_processes_that_count_in_a_file_none_is_lost() -> Outcome {
    let two = Two::new()?;
    let rounds = knob("HOLDFAST_MOUNT_LOCK_ROUNDS", 500);
    for how in ["fcntl", "flock", "open"] {
        count(&[two.one.at(), two.other.at()], how, rounds)?;
    }
    two.end()
}

fn count(mounts: &[&Path; 2], how: &str, rounds: u32) -> Outcome {
    let name = format!("counter-{how}");
    fs::write(mounts[0].join(&name), "0")?;
    let began = Instant::now();
    let start = |at: &Path| {
        let mut command = Command::new("python3");
        command.args(["-c", COUNTER]).arg(at.join(&name)).arg(rounds.to_string()).arg(how);
        command.stderr(Stdio::piped()).spawn()
    };
    let all = [mounts[0], mounts[0], mounts[1], mounts[1]].map(start);
    for one in all {
        let ended = one?.wait_with_output()?;
        assert!(ended.status.success(), "{how}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    let took = began.elapsed();
    println!("{how}: {} increments by four processes on two mounts in {took:?}", 4 * rounds);
    for mount in mounts {
        let mut looks = Locker::at(&mount.join(&name))?;
        looks.expect("lock posix f r 0 0 wait", "ok")?;
        looks.expect("read f", &(4 * rounds).to_string())?;
    }
    Ok(())
}

/// Writes to a database, as programs do that share one.
const DATABASE: &str = r"
import sqlite3, sys
path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = sqlite3.connect(path, timeout=120, isolation_level=None)
for round in range(rounds):
    base.execute('BEGIN IMMEDIATE')
    base.execute('UPDATE total SET count = count + 1')
    base.execute('INSERT INTO line VALUES (?, ?, ?)', (name, round, 'x' * 500))
    base.execute('COMMIT')
";

#[test]
fn a_database_that_two_mounts_write_to_is_whole() -> Outcome {
    let two = Two::new()?;
    let sql = |at: &Path, text: &str| run(Command::new("sqlite3").arg(at.join("base.db")).arg(text));
    let made = "CREATE TABLE total (count); INSERT INTO total VALUES (0); CREATE TABLE line (name, round, text);";
    sql(two.one.at(), made)?;
    let rounds = knob("HOLDFAST_MOUNT_LOCK_TRANSACTIONS", 60);
    let began = Instant::now();
    let start = |(name, at): (&str, &Path)| {
        let mut command = Command::new("python3");
        command.args(["-c", DATABASE]).arg(at.join("base.db")).args([name, &rounds.to_string()]);
        command.stderr(Stdio::piped()).spawn()
    };
    let (one, other) = (two.one.at(), two.other.at());
    let all = [("a", one), ("b", one), ("c", other), ("d", other)].map(start);
    for one in all {
        let ended = one?.wait_with_output()?;
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    println!("{} transactions by four processes on two mounts in {:?}", 4 * rounds, began.elapsed());
    for at in [one, other] {
        let wanted = format!("ok\n{0}\n{0}\n", 4 * rounds);
        let found = sql(at, "PRAGMA integrity_check; SELECT count FROM total; SELECT count(*) FROM line;")?;
        assert_eq!(found, wanted);
    }
    two.end()
}

#[test]
fn a_mount_that_is_killed_gives_its_locks_up_with_its_lease() -> Outcome {
    let Two { net, one, other: two } = Two::new()?;
    let mut a = Locker::at(&one.at().join("file"))?;
    let mut b = Locker::at(&two.at().join("file"))?;
    a.expect("lock posix f w 0 0 try", "ok")?;
    b.begin("lock posix f w 0 0 wait")?;
    assert_eq!(b.said(A_WHILE), None);
    let began = Instant::now();
    one.kill_9()?;
    assert_eq!(b.said(2 * SOON).as_deref(), Some("ok"));
    println!("a killed mount's lock was free after {:?}", began.elapsed());
    // One that ends in good order does so at once.
    let one = net.mount("one", &[])?;
    drop(a);
    b.expect("lock posix f u 0 0 try", "ok")?;
    let mut a = Locker::at(&one.at().join("file"))?;
    a.expect("lock posix f w 0 0 wait", "ok")?;
    b.begin("lock posix f w 0 0 wait")?;
    assert_eq!(b.said(A_WHILE), None);
    drop(a);
    one.stop()?;
    assert_eq!(b.said(Duration::from_secs(5)).as_deref(), Some("ok"));
    drop(b);
    net.end([two])
}

#[test]
fn a_server_that_is_killed_and_comes_back_takes_no_locks_away() -> Outcome {
    let mut two = Two::new()?;
    let (mut a, mut b) = two.lockers("file")?;
    // One is decided about here, the other there.
    a.expect("lock flock f w 0 0 try", "ok")?;
    a.expect("lock posix f w 0 10 try", "ok")?;
    b.expect("lock posix f w 10 10 try", "ok")?;
    b.expect("pwrite f written", "ok")?;
    two.net.rig.server.kill_9()?;
    two.net.rig.start_again()?;
    b.begin("lock flock f w 0 0 wait")?;
    assert_eq!(b.said(Duration::from_secs(3)), None, "another has it");
    a.expect("lock posix f w 10 10 try", "EAGAIN")?;
    a.expect("lock flock f u 0 0 try", "ok")?;
    assert_eq!(b.said(2 * SOON).as_deref(), Some("ok"));
    b.expect("lock posix f r 0 10 try", "EAGAIN")?;
    b.expect("lock posix f u 0 0 try", "ok")?;
    a.expect("lock posix f w 10 10 wait", "ok")?;
    a.expect("read f", "written")?;
    drop((a, b));
    // Started again in good order, while nobody has any.
    let began = Instant::now();
    while two.net.metric("holdfast_locked_files ")? > 0 {
        assert!(began.elapsed() < SOON, "what was open is closed");
        std::thread::sleep(Duration::from_millis(10));
    }
    two.net.rig.stop()?;
    assert!(!two.net.rig.data().join("mount-locks").exists(), "the next need not wait for anybody");
    two.net.rig.start_again()?;
    let (mut a, mut b) = two.lockers("other")?;
    let began = Instant::now();
    a.expect("lock posix f w 0 0 wait", "ok")?;
    b.expect("lock posix f w 0 0 try", "EAGAIN")?;
    println!("after a start with nothing left behind, within {:?}", began.elapsed());
    drop((a, b));
    two.end()
}

#[test]
fn programs_of_a_mount_that_was_away_for_too_long_are_told() -> Outcome {
    let Two { mut net, one, other: two } = Two::with(&["--deadline", "3"])?;
    let mut a = Locker::at(&one.at().join("file"))?;
    a.expect("pwrite f before", "ok")?;
    a.expect("lock posix f w 0 0 try", "ok")?;
    net.rig.server.signal(Signal::STOP)?;
    std::thread::sleep(Duration::from_secs(14));
    net.rig.server.signal(Signal::CONT)?;
    for what in ["read f", "pwrite f after", "lock posix f w 0 0 try", "lock posix f u 0 0 try"] {
        let said = a.ask(what)?;
        assert!(said == "EIO" || (what.contains(" u ") && said == "ok"), "{what}: {said}");
    }
    let mut b = Locker::at(&two.at().join("file"))?;
    b.expect("lock posix f w 0 0 wait", "ok")?;
    // Whoever opens it anew goes on.
    a.expect("close f", "EIO")?;
    b.expect("lock posix f u 0 0 try", "ok")?;
    a.expect(&format!("open f {}", one.at().join("file").display()), "ok")?;
    a.expect("lock posix f w 0 0 wait", "ok")?;
    a.expect("pwrite f after", "ok")?;
    a.expect("close f", "ok")?;
    drop((a, b));
    // They say that something went wrong, so they do not end in silence.
    drop((one, two));
    net.rig.stop()?;
    expect_clean(net.rig.server.options())
}

#[test]
fn a_mount_in_the_servers_process_takes_part() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (net, at) = Net::with_own_mount(folder.path())?;
    let other = net.mount("other", &[])?;
    let (mut a, mut b) = (Locker::at(&at.join("file"))?, Locker::at(&other.at().join("file"))?);
    for (one, two) in [("posix", "posix"), ("ofd", "posix"), ("flock", "flock")] {
        a.expect(&format!("lock {one} f w 0 0 try"), "ok")?;
        b.expect(&format!("lock {two} f w 0 0 try"), "EAGAIN")?;
        b.begin(&format!("lock {two} f w 0 0 wait"))?;
        assert_eq!(b.said(A_WHILE), None);
        a.expect("pwrite f text", "ok")?;
        a.expect(&format!("lock {one} f u 0 0 try"), "ok")?;
        assert_eq!(b.said(SOON).as_deref(), Some("ok"));
        b.expect("read f", "text")?;
        a.expect(&format!("lock {one} f r 0 0 try"), "EAGAIN")?;
        b.expect(&format!("lock {two} f u 0 0 try"), "ok")?;
    }
    drop((a, b));
    count(&[&at, other.at()], "fcntl", knob("HOLDFAST_MOUNT_LOCK_ROUNDS", 200))?;
    net.end([other])
}

/// Locks and unlocks for a second, and says how often.
const RATE: &str = r"
import fcntl, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(file, fcntl.LOCK_EX, 1)
fcntl.lockf(file, fcntl.LOCK_UN, 1)
until, count = time.monotonic() + 1, 0
while time.monotonic() < until:
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    fcntl.lockf(file, fcntl.LOCK_UN, 1)
    count += 1
print(count)
";

/// One mount asks nobody once it has the file as a whole.
#[test]
fn locks_that_nobody_else_wants_cost_no_calls() -> Outcome {
    let two = Two::new()?;
    let path = two.one.at().join("file");
    let before = two.net.calls()?;
    let locked: u64 = run(Command::new("python3").args(["-c", RATE]).arg(&path))?.trim().parse()?;
    let asked = two.net.calls()? - before;
    println!("{locked} locks and unlocks in a second, {asked} calls");
    assert!(asked < 50, "{asked} calls");
    // With another that locks the same file beside it, each is a call.
    let mut b = Locker::at(&two.other.at().join("file"))?;
    b.expect("lock posix f w 1000 1 wait", "ok")?;
    let exact = run(Command::new("python3").args(["-c", RATE]).arg(&path))?;
    println!("{} with another mount that has a lock there", exact.trim());
    drop(b);
    two.end()
}
