//! What is open, taken back from running confined programs, through the built program.

use holdfast_e2e::Outcome;
use holdfast_e2e::confined::{id_of, json, under_way};
use holdfast_testkit::confined::{self, Ground, as_each, as_each_serving, text, until};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Processes that each get something and then write a letter to a file of their name, again and again. `W` is the folder that policies speak of.
const PROCESSES: &str = "
import ctypes, mmap, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
W, B = sys.argv[1:3]
def process(name, what):
    if os.fork(): return
    try:
        held = what()
        while True:
            with open(B + '/' + name, 'a') as beat: beat.write('x')
            time.sleep(0.01)
    except BaseException as error: open(B + '/failed', 'a').write('%s: %r\\n' % (name, error))
    finally: os._exit(1)
def opened(name, flags=0): return lambda: os.open(W + '/' + name, flags)
def mapped(name, flags, kind, rights):
    def do():
        fd = os.open(W + '/' + name, flags)
        # That of the module keeps a descriptor.
        at = libc.mmap(None, ctypes.c_size_t(4096), rights, kind, fd, ctypes.c_size_t(0))
        os.close(fd)
        if at == ctypes.c_void_p(-1).value: raise OSError(ctypes.get_errno(), name)
    return do
def sent(to, name):
    fd = os.open(W + '/' + name, 0)
    socket.send_fds(to, [b'x'], [fd])
    os.close(fd)
process('clean', lambda: None)
";
const END: &str = "
while True: time.sleep(1)
";

/// A program of such processes, and its number.
struct Started<'a> {
    ground: &'a Ground,
    _child: confined::Started,
    id: String,
}

impl<'a> Started<'a> {
    /// Starts it under a policy of these lines, and waits until all processes have what they wanted.
    fn new(ground: &'a Ground, mark: &str, policy: &str, program: &str) -> Outcome<Self> {
        ground.policy("policy.toml", policy)?;
        // What other tests of this ground have left there.
        for entry in fs::read_dir(ground.path("changes"))? {
            fs::remove_file(entry?.path())?;
        }
        fs::write(ground.path("work/f"), "content\n")?;
        std::os::unix::fs::chown(ground.path("work/f"), Some(owner(ground)?), None)?;
        let [policy, work, beats] =
            ["policy.toml", "work", "changes"].map(|name| ground.path(name).display().to_string());
        let program = format!("{PROCESSES}{program}{END}# {mark}");
        let words = ["run", "--policy", &policy, "--", "/usr/bin/python3", "-S", "-E", "-c", &program, &work, &beats];
        let child = confined::Started(ground.command(&words).spawn()?);
        let names: Vec<_> =
            program.lines().filter_map(|line| line.strip_prefix("process('")?.split('\'').next()).collect();
        let mut started = Self { ground, _child: child, id: String::new() };
        until(mark, || {
            assert_eq!(fs::read_to_string(ground.path("changes/failed")).unwrap_or_default(), "");
            Ok(names.iter().all(|name| started.beats(name) > 0))
        })?;
        started.id = id_of(ground, &format!("# {mark}"))?;
        Ok(started)
    }

    fn beats(&self, name: &str) -> u64 {
        fs::metadata(self.ground.path("changes").join(name)).map_or(0, |found| found.len())
    }

    fn revoke(&self, policy: &str) -> Outcome<Vec<Value>> {
        self.ground.policy("other.toml", policy)?;
        let other = self.ground.path("other.toml").display().to_string();
        let told = json(self.ground, &["run", "policy", "set", &self.id, &other, "--revoke"])?;
        Ok(told["ended"].as_array().cloned().ok_or_else(|| told.to_string())?)
    }

    /// That these go on, and those were ended with these words, and nobody else.
    fn check(&self, told: &[Value], go_on: &[&str], ended: &[(&str, &str)]) -> Outcome {
        let before: Vec<_> = ended.iter().map(|(name, _)| self.beats(name)).collect();
        for name in go_on {
            let now = self.beats(name);
            until(name, || Ok(self.beats(name) > now))?;
        }
        std::thread::sleep(Duration::from_millis(50));
        for ((name, words), before) in ended.iter().zip(before) {
            assert_eq!(self.beats(name), before, "{name} goes on");
            assert!(told.iter().any(|one| one["had"].to_string().contains(words)), "{name}: {words}: {told:#?}");
        }
        assert_eq!(told.len(), ended.len(), "{told:#?}");
        assert!(told.iter().all(|one| one["program"].as_str().is_some_and(|it| it.starts_with("/usr/bin/python"))));
        Ok(())
    }
}

fn owner(ground: &Ground) -> Outcome<u32> {
    Ok(std::os::unix::fs::MetadataExt::uid(&fs::metadata(ground.path("work"))?))
}

/// `work` with these words, `work/kept` with those, and a place for letters.
fn policy(ground: &Ground, work: &str, kept: &str) -> String {
    let folder = ground.path("work").display().to_string();
    let usual = ground.usual();
    let usual = usual.replace(&format!("\"{folder}\" = \"all\""), &format!("\"{folder}\" = \"{work}\""));
    let usual = usual.replace(&format!("\"{folder}/kept\" = \"read\""), &format!("\"{folder}/kept\" = \"{kept}\""));
    usual + &format!("\"{}\" = \"all\"\n", ground.path("changes").display())
}

const DESCRIPTORS: &str = "
process('reader', opened('kept/file'))
process('pin', opened('kept/file', os.O_PATH))
process('lister', opened('kept'))
process('inside', lambda: os.chdir(W + '/kept'))
process('beside', opened('f', os.O_RDWR))
process('above', opened('.'))
";

/// What `DESCRIPTORS` come to when `kept` is hidden.
const DESCRIPTORS_ENDED: [(&str, &str); 4] = [
    ("reader", "/kept/file open to read"),
    ("pin", "/kept/file open"),
    ("lister", "/kept open to read"),
    ("inside", "working directory is"),
];

#[test]
fn whoever_has_open_what_another_policy_hides_is_ended_and_named_and_nobody_else() -> Outcome {
    as_each(|ground| {
        let started = Started::new(ground, "views", &policy(ground, "all", "read"), DESCRIPTORS)?;
        let told = started.revoke(&policy(ground, "all", "none"))?;
        started.check(&told, &["clean", "beside", "above"], &DESCRIPTORS_ENDED)?;
        // A second time nothing is left to be taken back.
        assert_eq!(started.revoke(&policy(ground, "all", "none"))?, [] as [Value; 0]);
        Ok(())
    })
}

#[test]
fn under_a_broker_what_is_open_is_taken_back_as_well() -> Outcome {
    as_each(|ground| {
        let work = ground.path("work").display().to_string();
        let rule = format!("[[rule]]\ndeny = [\"unlink\"]\npath = \"{work}/*.log\"\n");
        let started = Started::new(ground, "broker", &(policy(ground, "all", "read") + &rule), DESCRIPTORS)?;
        let told = started.revoke(&(policy(ground, "all", "none") + &rule))?;
        started.check(&told, &["clean", "beside", "above"], &DESCRIPTORS_ENDED)?;
        Ok(())
    })
}

#[test]
fn descriptors_that_were_passed_to_a_sibling_or_are_on_the_way_are_taken_back() -> Outcome {
    as_each(|ground| {
        let program = "
a, b = socket.socketpair()
process('sender', lambda: (sent(a, 'kept/file'), a.close(), b.close()))
process('receiver', lambda: socket.recv_fds(b, 1, 1))
a.close(); b.close()
c, d = socket.socketpair()
process('late', lambda: sent(c, 'kept/file'))
c.close(); d.close()
e, f = socket.socketpair()
def nested():
    g, h = socket.socketpair()
    sent(g, 'kept/file')
    socket.send_fds(e, [b'x'], [h.fileno()])
    g.close(); h.close()
process('nested', nested)
e.close(); f.close()
def listening():
    server = socket.socket(socket.AF_UNIX)
    server.bind(B + '/socket'); server.listen(4)
    client = socket.socket(socket.AF_UNIX); client.connect(B + '/socket')
    sent(client, 'kept/file')
    return server, client
process('listening', listening)
";
        let started = Started::new(ground, "passed", &policy(ground, "all", "read"), program)?;
        let told = started.revoke(&policy(ground, "all", "none"))?;
        let way = "on the way";
        let ended = [("receiver", "/kept/file open"), ("late", way), ("nested", way), ("listening", way)];
        started.check(&told, &["clean", "sender"], &ended)
    })
}

#[test]
fn mappings_that_another_policy_refuses_are_taken_back() -> Outcome {
    as_each(|ground| {
        let program = "
process('hidden', mapped('kept/file', os.O_RDONLY, mmap.MAP_PRIVATE, mmap.PROT_READ))
process('shared', mapped('f', os.O_RDWR, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
process('may', mapped('f', os.O_RDWR, mmap.MAP_SHARED, mmap.PROT_READ))
process('reads', mapped('f', os.O_RDONLY, mmap.MAP_SHARED, mmap.PROT_READ))
process('copies', mapped('f', os.O_RDONLY, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
";
        let started = Started::new(ground, "mapped", &policy(ground, "all", "read"), program)?;
        let told = started.revoke(&policy(ground, "read", "none"))?;
        let ended = [("hidden", "maps"), ("shared", "/f to write"), ("may", "/f to write")];
        started.check(&told, &["clean", "reads", "copies"], &ended)
    })
}

#[test]
fn a_tree_becomes_read_only_although_it_is_written_if_writers_are_ended() -> Outcome {
    as_each(|ground| {
        let program = "
process('writer', opened('f', os.O_WRONLY))
process('reader', opened('f'))
";
        let started = Started::new(ground, "writers", &policy(ground, "all", "read"), program)?;
        ground.policy("other.toml", &policy(ground, "read", "read"))?;
        let other = ground.path("other.toml").display().to_string();
        let busy = ground.command(&["run", "policy", "set", &started.id, &other]).output()?;
        assert!(!busy.status.success(), "{busy:?}");
        let told = started.revoke(&policy(ground, "read", "read"))?;
        started.check(&told, &["clean", "reader"], &[("writer", "/f open to write")])?;
        // What cannot be held ends nobody, and all goes on.
        ground.policy("other.toml", &policy(ground, "al", "read"))?;
        let wrong = ground.command(&["run", "policy", "set", &started.id, &other, "--revoke"]).output()?;
        assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
        ground.policy("other.toml", &policy(ground, "all", "all"))?;
        let wider = ground.command(&["run", "policy", "set", &started.id, &other, "--revoke"]).output()?;
        assert!(!wider.status.success() && text(&wider.stderr).contains("more than at the start"), "{wider:?}");
        started.check(&[], &["clean", "reader"], &[])
    })
}

#[test]
fn what_is_open_behind_a_gate_is_taken_back() -> Outcome {
    as_each_serving(|ground| {
        let work = ground.path("work").display().to_string();
        let rule = |files: &str| {
            format!("[[rule]]\ndeny = [\"read\"]\nfile = [{files}]\narguments = {{ offset = 4, length = 4 }}\n")
        };
        let one = rule(&format!("\"{work}/f\""));
        let both = rule(&format!("\"{work}/f\", \"{work}/g\""));
        let program = "
process('reader', opened('kept/file'))
process('each', opened('f', os.O_RDWR))
process('pages', opened('g', os.O_RDWR | os.O_CREAT))
process('mapping', mapped('kept/file', os.O_RDONLY, mmap.MAP_PRIVATE, mmap.PROT_READ))
";
        let started = Started::new(ground, "gates", &(policy(ground, "all", "read") + &one), program)?;
        let told = started.revoke(&(policy(ground, "all", "none") + &both))?;
        let ended = [("reader", "/kept/file open to read"), ("pages", "rules of each call"), ("mapping", "maps")];
        started.check(&told, &["clean", "each"], &ended)
    })
}

#[test]
fn processes_that_start_others_all_the_time_are_not_taken_for_what_does_not_stand_still() -> Outcome {
    as_each(|ground| {
        let program = "
def starting():
    for _ in range(3):
        if os.fork() == 0:
            while True: os.waitpid(os.posix_spawn('/usr/bin/true', ['true'], {}), 0)
process('starting', starting)
";
        let started = Started::new(ground, "starting", &policy(ground, "all", "read"), program)?;
        for _ in 0..15 {
            assert_eq!(started.revoke(&policy(ground, "all", "read"))?, [] as [Value; 0]);
        }
        started.check(&[], &["clean", "starting"], &[])
    })
}

#[test]
fn what_was_frozen_stays_frozen_and_what_was_handed_over_stays() -> Outcome {
    as_each(|ground| {
        ground.policy("policy.toml", &policy(ground, "all", "read"))?;
        ground.policy("other.toml", &policy(ground, "all", "none"))?;
        let [first, other] = ["policy.toml", "other.toml"].map(|name| ground.path(name).display().to_string());
        let script = "touch ready; while [ ! -e go ]; do sleep 0.01; done; cat # handed";
        let mut command = ground.command(&["run", "--policy", &first, "--", "sh", "-c", script]);
        let (from, to) = (ground.path("hidden/secret"), ground.path("out"));
        let mut child = command.stdin(fs::File::open(from)?).stdout(fs::File::create(&to)?).spawn()?;
        until("the program", || Ok(ground.path("work/ready").exists()))?;
        let id = id_of(ground, "# handed")?;
        ground.said(&["run", "freeze", &id])?;
        let told = ground.said(&["run", "policy", "set", &id, &other, "--revoke"])?;
        assert_eq!(text(&told), "nothing that it refuses was open\n");
        fs::write(ground.path("work/go"), "")?;
        assert_eq!(under_way(ground, "# handed")?.ok_or("it is not listed")?["frozen"], true);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(fs::read_to_string(&to)?, "");
        ground.said(&["run", "thaw", &id])?;
        assert!(child.wait()?.success());
        assert_eq!(fs::read_to_string(&to)?, "secret\n");
        Ok(())
    })
}
