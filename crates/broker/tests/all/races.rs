//! Programs that change what a call is about while it is asked about, and get nothing by it.
//!
//! The program is this test's own binary, started again with its part in a variable: real threads, and memory that is shared.

#![allow(unsafe_code)]

use crate::support::{By, Done, folder, host, run};
use holdfast_policy::{Operation, Request};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Set in the copy that runs in the sandbox: its part, and a folder.
const PART: &str = "HOLDFAST_BROKER_PART";
const FOLDER: &str = "HOLDFAST_BROKER_FOLDER";
/// Calls of each race by threads, and by processes of their own.
const CALLS: usize = 10_000;
const PROCESSES: usize = 400;
/// How often the flipping thread changes sides between two looks at whether it shall end.
const FLIPS: usize = 100;

/// Runs a part of [`plays_its_part`] in a sandbox. Below `no` an operation is refused.
fn race(part: &str, operation: Operation, folder: &Path) -> Done {
    let mut sandbox = host([std::env::current_exe().expect("a test has a path")]);
    sandbox.command.extend(["--exact", "races::plays_its_part", "--nocapture", "--test-threads", "1"].map(Into::into));
    sandbox.environment.extend([(PART.into(), part.into()), (FOLDER.into(), folder.into())]);
    let refused = folder.join("no");
    let judge = By(move |request: &Request<'_>| request.operation != operation || !request.path.starts_with(&refused));
    let done = run(Arc::new(judge), sandbox);
    assert!(done.outcome.success(), "{done:?}");
    done
}

/// Folders `ok` and `no`, in each a file that says which it is in, a folder, and a program: one that does nothing, and one that makes a file.
fn two() -> tempfile::TempDir {
    let folder = folder();
    for (side, program) in [("ok", "/bin/true"), ("no", "/usr/bin/touch")] {
        std::fs::create_dir_all(folder.path().join(side).join("d")).expect("a folder");
        std::fs::write(folder.path().join(side).join("f"), side).expect("a file");
        std::fs::copy(program, folder.path().join(side).join("x")).expect("a program");
    }
    folder
}

#[test]
fn memory_that_changes_between_question_and_call_opens_nothing_refused() {
    let folder = two();
    let done = race("open", Operation::Read, folder.path());
    assert!(done.counters.denied > 0 && done.counters.killed == 0, "{:?}", done.counters);
}

#[test]
fn memory_that_changes_between_question_and_call_removes_nothing_refused() {
    let folder = two();
    let done = race("unlink", Operation::Unlink, folder.path());
    assert!(done.counters.denied > 0 && done.counters.killed == 0, "{:?}", done.counters);
    assert!(folder.path().join("no/f").exists());
}

#[test]
fn links_that_change_between_question_and_call_open_nothing_refused() {
    let folder = two();
    let (link, ended) = (folder.path().join("link"), AtomicBool::new(false));
    std::os::unix::fs::symlink("ok", &link).expect("a link");
    std::thread::scope(|scope| {
        // From outside, where nobody asks.
        scope.spawn(|| {
            for target in ["no", "ok"].into_iter().cycle() {
                let next = folder.path().join("next");
                std::os::unix::fs::symlink(target, &next).expect("a link");
                std::fs::rename(&next, &link).expect("a move");
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _end = End(&ended);
        let done = race("link", Operation::Read, folder.path());
        assert!(done.counters.denied > 0 && done.counters.killed == 0, "{:?}", done.counters);
    });
}

#[test]
fn folders_that_are_exchanged_between_question_and_call_open_nothing_refused() {
    let folder = two();
    let ended = AtomicBool::new(false);
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("way")).expect("a folder");
    std::fs::write(at("way/f"), "ok").expect("a file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A file with the same name comes and goes under the refused folder and a folder that is allowed; what is read is asked about where it is.
            while !ended.load(Ordering::Relaxed) {
                std::fs::rename(at("way"), at("no/way")).expect("a move");
                std::fs::rename(at("no/way"), at("way")).expect("a move");
            }
        });
        let _end = End(&ended);
        let done = race("way", Operation::Read, folder.path());
        assert!(done.counters.allowed > 0 && done.counters.killed == 0, "{:?}", done.counters);
    });
}

#[test]
fn a_program_that_is_exchanged_between_question_and_execution_does_not_run() {
    let folder = two();
    let done = race("exec", Operation::Exec, folder.path());
    assert!(!folder.path().join("marker").exists(), "it ran");
    // Some have won the race, and ended by that.
    assert!(done.counters.killed > 0 && done.counters.denied > 0, "{:?}", done.counters);
}

#[test]
fn a_working_directory_that_is_exchanged_between_question_and_call_is_not_reached() {
    let folder = two();
    let done = race("chdir", Operation::Lookup, folder.path());
    assert!(done.counters.killed > 0 && done.counters.denied > 0, "{:?}", done.counters);
}

#[test]
fn a_file_that_is_exchanged_between_question_and_pinning_is_not_held() {
    let folder = two();
    let done = race("pin", Operation::Lookup, folder.path());
    assert!(done.counters.killed > 0 && done.counters.denied > 0, "{:?}", done.counters);
}

/// Tells a thread to end, also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A path in shared memory, whose side another thread keeps changing.
struct Flipped {
    memory: &'static [AtomicU8],
    side: usize,
}

impl Flipped {
    fn new(folder: &Path, rest: &str) -> Self {
        let path = CString::new([folder.as_os_str().as_bytes(), b"/ok/", rest.as_bytes()].concat()).expect("no zeros");
        let path = path.as_bytes_with_nul();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping that stays for the life of the process; atomic bytes may be changed by whoever shares it.
        let memory = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            std::slice::from_raw_parts(start.cast::<AtomicU8>(), path.len())
        };
        for (place, byte) in memory.iter().zip(path) {
            place.store(*byte, Ordering::Relaxed);
        }
        Self { memory, side: folder.as_os_str().len() + 1 }
    }

    fn pointer(&self) -> *const libc::c_char {
        self.memory.as_ptr().cast()
    }

    /// Changes between `ok` and `no` while something is done. In between it is `nk` and `no` is reached by one byte after the other, which names nothing.
    fn while_it_flips(&self, what: impl FnOnce()) {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    for _ in 0..FLIPS {
                        for side in [b"no", b"ok"] {
                            self.memory[self.side].store(side[0], Ordering::Relaxed);
                            self.memory[self.side + 1].store(side[1], Ordering::Relaxed);
                            for _ in 0..200 {
                                std::hint::spin_loop();
                            }
                        }
                    }
                }
            });
            let _end = End(&ended);
            what();
        });
    }
}

fn read(descriptor: i32) -> Vec<u8> {
    let mut content = [0_u8; 9];
    // SAFETY: as many bytes as the array has; the descriptor is our own.
    let length = unsafe {
        let length = libc::read(descriptor, content.as_mut_ptr().cast(), content.len());
        libc::close(descriptor);
        length
    };
    content[..usize::try_from(length).expect("it can be read")].to_vec()
}

/// What can be opened is what may be.
fn open_often(open: impl Fn() -> i32) {
    for fd in (0..CALLS).map(|_| open()).filter(|fd| *fd >= 0) {
        assert_eq!(read(fd), b"ok");
    }
}

/// Runs something in processes of their own, none of which may end with 7.
fn in_processes(what: impl Fn() -> i32) {
    for _ in 0..PROCESSES {
        // SAFETY: the child makes system calls alone, and ends without running anything of its parent's.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let code = what();
            // SAFETY: it does not return.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: the pointer outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7), "it got there");
    }
}

#[test]
fn plays_its_part() {
    let (Some(part), Some(folder)) = (std::env::var_os(PART), std::env::var_os(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    // SAFETY: what is called here takes paths that end with a zero.
    let open = |path: *const libc::c_char, flags: i32| unsafe { libc::open(path, flags) };
    let flipped = |rest: &str| Flipped::new(&folder, rest);
    match part.to_str().expect("text") {
        "open" => {
            let path = flipped("f");
            path.while_it_flips(|| open_often(|| open(path.pointer(), 0)));
        }
        "unlink" => {
            let (path, fresh) = (flipped("f"), folder.join("ok/f"));
            path.while_it_flips(|| {
                for _ in 0..CALLS {
                    // SAFETY: as above.
                    if unsafe { libc::unlink(path.pointer()) } == 0 {
                        std::fs::write(&fresh, "ok").expect("it may");
                    }
                }
            });
        }
        "link" | "way" => {
            let path = CString::new(folder.join(&part).join("f").as_os_str().as_bytes()).expect("no zeros");
            open_often(|| open(path.as_ptr(), 0));
        }
        "exec" => {
            let (path, marker) =
                (flipped("x"), CString::new(folder.join("marker").as_os_str().as_bytes()).expect("no zeros"));
            let arguments = [c"x".as_ptr(), marker.as_ptr(), std::ptr::null()];
            // SAFETY: as above, and the list ends with a null pointer.
            path.while_it_flips(|| in_processes(|| unsafe { libc::execv(path.pointer(), arguments.as_ptr()) }));
        }
        "chdir" => {
            let path = flipped("d");
            path.while_it_flips(|| {
                in_processes(|| {
                    let mut now = [0_u8; 4096];
                    // SAFETY: as above; the array is as long as is said.
                    unsafe { (libc::chdir(path.pointer()), libc::getcwd(now.as_mut_ptr().cast(), now.len())) };
                    let now = CStr::from_bytes_until_nul(&now).unwrap_or_default().to_bytes();
                    if now.ends_with(b"/no/d") { 7 } else { 0 }
                });
            });
        }
        "pin" => {
            let path = flipped("f");
            path.while_it_flips(|| {
                in_processes(|| {
                    let fd = open(path.pointer(), libc::O_PATH);
                    let mut now = [0_u8; 4096];
                    let link = format!("/proc/self/fd/{fd}\0");
                    // SAFETY: as above.
                    let length = unsafe { libc::readlink(link.as_ptr().cast(), now.as_mut_ptr().cast(), now.len()) };
                    let now = &now[..usize::try_from(length).unwrap_or(0)];
                    if now.ends_with(b"/no/f") { 7 } else { 0 }
                });
            });
        }
        other => panic!("no part {other}"),
    }
}
