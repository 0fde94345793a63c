//! A program that locks files as it is told, of whichever kind: a process of its own, since locks are a process's.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::Outcome;

/// Longest that a lock takes which nobody has to wait for.
const SOON: Duration = Duration::from_secs(30);

const PROGRAM: &str = r"
import errno, fcntl, os, signal, struct, sys
class Woken(Exception): pass
def wake(*_): raise Woken
signal.signal(signal.SIGALRM, wake)
KINDS = {'r': fcntl.F_RDLCK, 'w': fcntl.F_WRLCK, 'u': fcntl.F_UNLCK}
NAMES = {kind: name for name, kind in KINDS.items()}
FLOCKS = {'r': fcntl.LOCK_SH, 'w': fcntl.LOCK_EX, 'u': fcntl.LOCK_UN}
# It has two names.
NUMBERS = {errno.EDEADLK: 'EDEADLK'}
files = {}
def record(fd, kind, start, length):
    return struct.pack('hhqqi0q', KINDS[kind], os.SEEK_SET, start, length, 0)
def lock(how, name, kind, start, length, wait):
    fd, start, length, wait = files[name], int(start), int(length), wait == 'wait'
    if how == 'flock':
        fcntl.flock(fd, FLOCKS[kind] | (0 if wait else fcntl.LOCK_NB))
    else:
        command = (fcntl.F_SETLKW if wait else fcntl.F_SETLK) if how == 'posix' else (38 if wait else 37)
        fcntl.fcntl(fd, command, record(fd, kind, start, length))
def test(name, kind, start, length):
    found = fcntl.fcntl(files[name], fcntl.F_GETLK, record(0, kind, int(start), int(length)))
    kind, _, start, length, process = struct.unpack('hhqqi0q', found)
    return f'{NAMES[kind]} {start} {length}' if NAMES[kind] != 'u' else 'free'
for line in sys.stdin:
    what, *rest = line.split()
    try:
        said = 'ok'
        if what == 'open': files[rest[0]] = os.open(rest[1], os.O_RDWR | os.O_CREAT, 0o644)
        elif what == 'append': files[rest[0]] = os.open(rest[1], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        elif what == 'close': os.close(files.pop(rest[0]))
        elif what == 'lock': lock(*rest)
        elif what == 'test': said = test(*rest)
        elif what == 'alarm': signal.setitimer(signal.ITIMER_REAL, float(rest[0]))
        elif what == 'write': os.write(files[rest[0]], rest[1].encode())
        elif what == 'pwrite': os.pwrite(files[rest[0]], rest[1].encode(), 0)
        elif what == 'read': said = os.pread(files[rest[0]], 1 << 20, 0).decode() or 'empty'
        else: said = 'what?'
    except OSError as error: said = NUMBERS.get(error.errno) or errno.errorcode[error.errno]
    except Woken: said = 'EINTR'
    print(said, flush=True)
";

/// The program.
#[derive(Debug)]
pub struct Locker {
    child: Child,
    input: ChildStdin,
    said: Receiver<String>,
}

impl Locker {
    /// One that has opened a file under the name `f`.
    pub fn at(path: &Path) -> Outcome<Self> {
        let mut command = Command::new("python3");
        let mut child = command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let out = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let (say, said) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        let mut locker = Self { child, input, said };
        locker.expect(&format!("open f {}", path.display()), "ok")?;
        Ok(locker)
    }

    /// Has it begin something.
    pub fn begin(&mut self, what: &str) -> Outcome {
        Ok(writeln!(self.input, "{what}")?)
    }

    /// What came of what was begun; none if nothing did in this time.
    pub fn said(&self, within: Duration) -> Option<String> {
        self.said.recv_timeout(within).ok()
    }

    /// Has it do something, and answers what came of it.
    pub fn ask(&mut self, what: &str) -> Outcome<String> {
        self.begin(what)?;
        self.said(SOON).ok_or_else(|| format!("{what}: nothing was said").into())
    }

    /// Has it do something of which this is to come.
    pub fn expect(&mut self, what: &str, wanted: &str) -> Outcome {
        let said = self.ask(what)?;
        if said == wanted { Ok(()) } else { Err(format!("{what}: {said} and not {wanted}").into()) }
    }

    /// Ends it as a crash does; answers how long its end took.
    pub fn kill_9(mut self) -> Outcome<Duration> {
        let began = std::time::Instant::now();
        self.child.kill()?;
        self.child.wait()?;
        Ok(began.elapsed())
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
