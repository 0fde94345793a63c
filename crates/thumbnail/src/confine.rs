//! What a worker gives up before it looks at anything: every descriptor but its two pipes, most of its memory and time, and every system call that
//! is not about memory or those pipes.
//!
//! The filter of system calls (seccomp) is a list of what may be called; anything else fails as not permitted. With it a process can open no file and no socket,
//! start nothing, signal nobody, trace nobody, and make no memory executable. A worker without it does not work. (Landlock would
//! restrict opening files and connecting, which the filter refuses as a whole.)

use crate::{ADDRESS_BYTES_MAX, CPU_SECONDS_MAX, DATA_BYTES_MAX};
use holdfast_base::{Error, Result};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// What may be called whatever the arguments: moving bytes through open pipes, memory, time, random numbers, ending.
const CALLS: [libc::c_long; 19] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What may be called unless it makes memory executable: the third argument says so.
const MAPPING_CALLS: [libc::c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Gives everything up. After this the process can do nothing but work.
pub(crate) fn confine() -> Result<()> {
    volunteer();
    close_all_but_pipes();
    limit()?;
    // Nobody of the same account may look into it or take it over.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| refused("dumping", error))?;
    let filter = filter().map_err(|error| refused("the filter of system calls", error))?;
    // Sets `no_new_privs` first.
    apply_filter(&filter).map_err(|error| refused("the filter of system calls", error))
}

fn refused(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = error.into();
    Error::internal(format!("a worker could not give up {what}: {error}")).with_source(error)
}

/// When the machine runs out of memory, a thumbnail is what to do without. Not permitted everywhere, and nothing depends on it.
fn volunteer() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// The server's descriptors are closed when another program starts; this closes what somebody may have forgotten.
#[expect(unsafe_code, reason = "a foreign function; see the safety comment")]
fn close_all_but_pipes() {
    // SAFETY: the call takes numbers only. This process has just started, has one thread, and has opened nothing that it still needs, so no
    // descriptor above the standard ones belongs to an object of ours.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

fn limit() -> Result<()> {
    let limits = [
        (Resource::As, ADDRESS_BYTES_MAX),
        (Resource::Data, DATA_BYTES_MAX),
        (Resource::Cpu, CPU_SECONDS_MAX),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nofile, 3),
        (Resource::Nproc, 0),
    ];
    limits.into_iter().try_for_each(|(resource, most)| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| refused("its limits", error))
    })
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let without_exec = || {
        let no_exec = SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs()));
        let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, no_exec, 0)?;
        SeccompRule::new(vec![condition])
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    for call in MAPPING_CALLS {
        rules.insert(call, vec![without_exec()?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Something that a worker must not be able to do.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// What was tried.
    pub what: &'static str,
    /// Whether it was refused.
    pub refused: bool,
}

/// Confines this process and tries what it must not be able to do.
pub fn prove() -> Result<Vec<Attempt>> {
    confine()?;
    let attempt = |what, refused| Attempt { what, refused };
    let too_much = usize::try_from(DATA_BYTES_MAX).unwrap_or(usize::MAX);
    Ok(vec![
        attempt("open a file", std::fs::File::open("/etc/passwd").is_err()),
        attempt("list a folder", std::fs::read_dir("/").is_err()),
        attempt("write a file", std::fs::write("/tmp/holdfast-thumbnail-worker", "x").is_err()),
        attempt("connect", std::net::TcpStream::connect("127.0.0.1:1").is_err_and(|error| is_refused(&error))),
        attempt("listen", std::net::TcpListener::bind("127.0.0.1:0").is_err()),
        attempt("look at another process", std::fs::read("/proc/1/status").is_err()),
        attempt("start a program", std::process::Command::new("/bin/true").spawn().is_err()),
        attempt("start a thread", std::thread::Builder::new().spawn(|| ()).is_err()),
        attempt("copy a descriptor", rustix::io::dup(std::io::stdout()).is_err()),
        attempt(
            "get its limits back",
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).is_err(),
        ),
        attempt("take more memory", Vec::<u8>::new().try_reserve_exact(too_much).is_err()),
        attempt("see the environment", std::env::vars_os().next().is_none()),
    ])
}

/// By the filter, and not by a port where nobody listens.
fn is_refused(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}
