//! The filter of system calls: a program of the kernel's packet filter, made here because it mixes answers that libraries keep apart.
//!
//! It refuses what a confined program has no business with, whatever its arguments, and a few by an argument. What is not named is allowed: files are the
//! view's matter. A call that is allowed without a look at its arguments costs nothing, since the kernel remembers the answer.
//!
//! Limits: a filter sees numbers, never what a pointer leads to; and calls through `io_uring` are not seen at all, so that is always refused.

use crate::sandbox::Denied;
use libc::sock_filter;

/// What a filter is made from.
pub(crate) struct Wanted<'a> {
    pub(crate) denied: &'a [Denied],
    pub(crate) sockets: Sockets,
    /// Whether there are sockets with a path.
    pub(crate) unix: bool,
    pub(crate) notify: &'a [i64],
    /// Whether attributes of files cannot be changed.
    pub(crate) attributes_stay: bool,
}

/// Which sockets may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Any.
    All,
    /// Those that a network namespace holds in; others, such as those to a hypervisor, know no namespaces.
    Own,
    /// Those with a path.
    Local,
    /// TCP, and those with a path if abstract ones are held otherwise.
    Tcp { local: bool },
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// From here on numbers are those of the x32 ABI, whose calls would escape every comparison below.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Refused with `EPERM` whatever the arguments.
const FORBIDDEN: &[libc::c_long] = &[
    // Another view.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    // Keys are kept for an account, not for a sandbox.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Work that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// What changes attributes of files, for when no mount protects them.
const ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Numbers of newer calls, one on all architectures (`asm-generic/unistd.h`).
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_FILE_SETATTR: libc::c_long = 469;

/// What reads files by pages of the kernel's memory.
const BY_PAGES: [libc::c_long; 3] = [libc::SYS_splice, libc::SYS_sendfile, libc::SYS_copy_file_range];

/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR` (`linux/fs.h`), the first also as 32-bit programs number it.
const ATTRIBUTE_REQUESTS: [u32; 3] = [0x4008_6602, 0x401c_5820, 0x4004_6602];

/// Since Linux 6.15; one number on all architectures (`asm-generic/unistd.h`).
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

/// Calls that the last steps before the program need, and that therefore nobody can be asked about.
pub(crate) const RESERVED: [libc::c_long; 5] =
    [libc::SYS_sendmsg, libc::SYS_close, libc::SYS_exit_group, libc::SYS_exit, libc::SYS_rt_sigreturn];

/// All flags of `clone` and `unshare` that make a namespace, but that of time, which only `unshare` takes.
const NAMESPACES: u32 = 0x7e02_0000;
const TIME_NAMESPACE: u32 = 0x80;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()
}

/// Where in `struct seccomp_data` a number is. The lower half of an argument comes first on little-endian machines, the only ones there are here.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

fn load(at: u32) -> sock_filter {
    sock_filter { code: 0x20, jt: 0, jf: 0, k: at }
}
fn and(mask: u32) -> sock_filter {
    sock_filter { code: 0x54, jt: 0, jf: 0, k: mask }
}
fn answer(what: u32) -> sock_filter {
    sock_filter { code: 0x06, jt: 0, jf: 0, k: what }
}
/// Skips so many when equal, and so many when not.
fn equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: then, jf: otherwise, k: value }
}
fn at_least(value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x35, jt: then, jf: otherwise, k: value }
}
fn any_bit(mask: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x45, jt: then, jf: otherwise, k: mask }
}

/// The program for what is wanted.
pub(crate) fn assemble(wanted: &Wanted<'_>) -> Vec<sock_filter> {
    let mut program = vec![load(ARCH), equal(ARCHITECTURE, 1, 0), answer(KILL), load(NUMBER)];
    #[cfg(target_arch = "x86_64")]
    program.extend([at_least(X32, 0, 1), answer(refuse(libc::ENOSYS))]);
    let _ = at_least;
    let attributes = if wanted.attributes_stay { ATTRIBUTES } else { &[] };
    for &call in FORBIDDEN.iter().chain(attributes).chain(denied(wanted.denied).iter()) {
        program.extend([equal(number(call), 0, 1), answer(refuse(libc::EPERM))]);
    }
    if wanted.denied.contains(&Denied::Unserved) {
        for call in BY_PAGES {
            program.extend([equal(number(call), 0, 1), answer(refuse(libc::EINVAL))]);
        }
    }
    // Its flags are behind a pointer; libraries fall back to `clone`.
    program.extend([equal(number(libc::SYS_clone3), 0, 1), answer(refuse(libc::ENOSYS))]);
    for (call, mut body) in by_argument(wanted) {
        // What the arguments do not forbid may still be somebody's question.
        let rest = if wanted.notify.contains(&call) { NOTIFY } else { ALLOW };
        body.push(answer(rest));
        let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
        program.push(equal(number(call), 0, length));
        program.append(&mut body);
    }
    for &call in wanted.notify {
        program.extend([equal(number(call), 0, 1), answer(NOTIFY)]);
    }
    program.push(answer(ALLOW));
    program
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn denied(denied: &[Denied]) -> Vec<libc::c_long> {
    let calls = |one: &Denied| -> Vec<libc::c_long> {
        match one {
            Denied::Fsync => vec![
                libc::SYS_fsync,
                libc::SYS_fdatasync,
                libc::SYS_sync,
                libc::SYS_syncfs,
                libc::SYS_sync_file_range,
                libc::SYS_msync,
            ],
            #[cfg(target_arch = "x86_64")]
            Denied::Statfs => vec![libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_ustat],
            #[cfg(not(target_arch = "x86_64"))]
            Denied::Statfs => vec![libc::SYS_statfs, libc::SYS_fstatfs],
            Denied::Llseek => vec![libc::SYS_lseek],
            Denied::Unserved => Vec::new(),
        }
    };
    denied.iter().flat_map(calls).collect()
}

/// Calls that are refused for some arguments: the tests, which fall through to what else is to be answered.
fn by_argument(wanted: &Wanted<'_>) -> Vec<(libc::c_long, Vec<sock_filter>)> {
    let refused = || answer(refuse(libc::EPERM));
    let flags = |mask| vec![load(argument(0)), any_bit(mask, 0, 1), refused()];
    // Keys typed into the terminal by a program would be read by the shell that started it.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].map(|what| u32::try_from(what).unwrap_or(u32::MAX));
    let requests = if wanted.attributes_stay { &ATTRIBUTE_REQUESTS[..] } else { &[] };
    let mut ioctl = vec![load(argument(1))];
    for &request in typing.iter().chain(requests) {
        ioctl.extend([equal(request, 0, 1), refused()]);
    }
    let mut calls = vec![
        (libc::SYS_clone, flags(NAMESPACES)),
        (libc::SYS_unshare, flags(NAMESPACES | TIME_NAMESPACE)),
        (libc::SYS_ioctl, ioctl),
    ];
    if wanted.denied.contains(&Denied::Unserved) {
        let once = libc::AT_STATX_DONT_SYNC.unsigned_abs();
        calls.push((libc::SYS_statx, vec![load(argument(2)), any_bit(once, 0, 1), answer(refuse(libc::EINVAL))]));
    }
    let unknown = || answer(refuse(libc::EAFNOSUPPORT));
    let mut socket = Vec::new();
    if !wanted.unix {
        socket.extend([load(argument(0)), equal(family(libc::AF_UNIX), 0, 1), unknown()]);
        // One of datagrams, connected as it is, can still be bound to a path and send to another.
        let [stream, packets] = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(family);
        let pair = vec![load(argument(1)), and(0xf), equal(stream, 2, 0), equal(packets, 1, 0), unknown()];
        calls.push((libc::SYS_socketpair, pair));
    }
    match wanted.sockets {
        Sockets::All => {}
        Sockets::Local => socket.extend([load(argument(0)), equal(family(libc::AF_UNIX), 1, 0), unknown()]),
        Sockets::Own => socket.append(&mut own_sockets(unknown())),
        Sockets::Tcp { local } => {
            socket.append(&mut tcp_sockets(local, unknown()));
            // Connecting by sending is not asked of Landlock.
            for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
                let fast_open = u32::try_from(libc::MSG_FASTOPEN).unwrap_or(u32::MAX);
                calls.push((call, vec![load(argument(flags)), any_bit(fast_open, 0, 1), refused()]));
            }
        }
    }
    if !socket.is_empty() {
        calls.push((libc::SYS_socket, socket));
    }
    calls
}

fn family(which: i32) -> u32 {
    which.unsigned_abs()
}

fn own_sockets(unknown: sock_filter) -> Vec<sock_filter> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(family);
    vec![
        load(argument(0)),
        equal(families[0], 4, 0),
        equal(families[1], 3, 0),
        equal(families[2], 2, 0),
        equal(families[3], 1, 0),
        unknown,
    ]
}

fn tcp_sockets(local: bool, unknown: sock_filter) -> Vec<sock_filter> {
    // Past the end of this list, or to its refusal.
    let local = if local { 9 } else { 8 };
    vec![
        load(argument(0)),
        equal(family(libc::AF_UNIX), local, 0),
        equal(family(libc::AF_INET), 1, 0),
        equal(family(libc::AF_INET6), 0, 6),
        load(argument(1)),
        and(0xf),
        equal(family(libc::SOCK_STREAM), 0, 3),
        load(argument(2)),
        equal(0, 2, 0),
        equal(family(libc::IPPROTO_TCP), 1, 0),
        unknown,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel does.
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            match step.code {
                0x20 => {
                    accumulator = match step.k {
                        NUMBER => number,
                        ARCH => arch,
                        other => arguments[usize::try_from((other - 16) / 8).expect("small")],
                    }
                }
                0x54 => accumulator &= step.k,
                0x15 => at += jump(accumulator == step.k),
                0x35 => at += jump(accumulator >= step.k),
                0x45 => at += jump(accumulator & step.k != 0),
                0x06 => return step.k,
                other => panic!("an instruction {other:#x}"),
            }
        }
    }

    fn ask(sockets: Sockets, call: libc::c_long, arguments: [u32; 6]) -> u32 {
        ask_with(true, sockets, call, arguments)
    }

    fn ask_with(unix: bool, sockets: Sockets, call: libc::c_long, arguments: [u32; 6]) -> u32 {
        let wanted = Wanted {
            denied: &[Denied::Llseek, Denied::Unserved],
            sockets,
            unix,
            notify: &[libc::SYS_openat, libc::SYS_clone],
            attributes_stay: false,
        };
        run(&assemble(&wanted), ARCHITECTURE, number(call), arguments)
    }

    #[test]
    fn each_call_gets_the_answer_that_is_meant_for_it() {
        let plain = |call| ask(Sockets::All, call, [0; 6]);
        for &call in FORBIDDEN {
            assert_eq!(plain(call), refuse(libc::EPERM), "{call}");
        }
        assert_eq!(plain(libc::SYS_lseek), refuse(libc::EPERM));
        for call in BY_PAGES {
            assert_eq!(plain(call), refuse(libc::EINVAL));
        }
        assert_eq!(plain(libc::SYS_statx), ALLOW);
        assert_eq!(ask(Sockets::All, libc::SYS_statx, [0, 0, 0x4000, 0, 0, 0]), refuse(libc::EINVAL));
        assert_eq!(plain(libc::SYS_fsync), ALLOW);
        assert_eq!(plain(libc::SYS_read), ALLOW);
        assert_eq!(plain(libc::SYS_openat), NOTIFY);
        assert_eq!(plain(libc::SYS_clone3), refuse(libc::ENOSYS));
        assert_eq!(plain(libc::SYS_clone), NOTIFY);
        assert_eq!(ask(Sockets::All, libc::SYS_clone, [0x1000_0000, 0, 0, 0, 0, 0]), refuse(libc::EPERM));
        assert_eq!(ask(Sockets::All, libc::SYS_unshare, [0x80, 0, 0, 0, 0, 0]), refuse(libc::EPERM));
        assert_eq!(ask(Sockets::All, libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0]), refuse(libc::EPERM));
        assert_eq!(ask(Sockets::All, libc::SYS_ioctl, [0, 0x541c, 0, 0, 0, 0]), refuse(libc::EPERM));
        assert_eq!(ask(Sockets::All, libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]), ALLOW);
    }

    #[test]
    fn sockets_are_of_the_families_that_are_held() {
        let unknown = refuse(libc::EAFNOSUPPORT);
        let socket = |sockets, domain: i32, kind, protocol| {
            ask(sockets, libc::SYS_socket, [family(domain), kind, protocol, 0, 0, 0])
        };
        for (domain, expected) in [
            (libc::AF_UNIX, ALLOW),
            (libc::AF_INET, ALLOW),
            (libc::AF_INET6, ALLOW),
            (libc::AF_NETLINK, ALLOW),
            (libc::AF_VSOCK, unknown),
        ] {
            assert_eq!(socket(Sockets::Own, domain, 1, 0), expected, "{domain}");
        }
        let tcp = Sockets::Tcp { local: true };
        let cloexec = 0x80000 | 1;
        assert_eq!(socket(tcp, libc::AF_INET, cloexec, 0), ALLOW);
        assert_eq!(socket(tcp, libc::AF_INET6, 1, 6), ALLOW);
        assert_eq!(socket(tcp, libc::AF_INET, 2, 0), unknown);
        assert_eq!(socket(tcp, libc::AF_INET, 1, 132), unknown);
        assert_eq!(socket(tcp, libc::AF_NETLINK, 3, 0), unknown);
        assert_eq!(socket(tcp, libc::AF_UNIX, 2, 0), ALLOW);
        assert_eq!(socket(Sockets::Tcp { local: false }, libc::AF_UNIX, 1, 0), unknown);
        assert_eq!(ask(tcp, libc::SYS_sendto, [0, 0, 0, 0x2000_0000, 0, 0]), refuse(libc::EPERM));
        assert_eq!(ask(tcp, libc::SYS_sendto, [0; 6]), ALLOW);
    }

    #[test]
    fn without_unix_sockets_there_are_pairs_that_stay_what_they_are() {
        let unknown = refuse(libc::EAFNOSUPPORT);
        for sockets in [Sockets::All, Sockets::Own, Sockets::Local, Sockets::Tcp { local: true }] {
            let made = |call, domain, kind| ask_with(false, sockets, call, [family(domain), kind, 0, 0, 0, 0]);
            for kind in 0..16 {
                assert_eq!(made(libc::SYS_socket, libc::AF_UNIX, 0x80000 | kind), unknown, "{sockets:?} {kind}");
                let pair = if matches!(kind, 1 | 5) { ALLOW } else { unknown };
                assert_eq!(made(libc::SYS_socketpair, libc::AF_UNIX, 0x80000 | kind), pair, "{sockets:?} {kind}");
            }
            let others = if sockets == Sockets::Local { unknown } else { ALLOW };
            assert_eq!(made(libc::SYS_socket, libc::AF_INET, 1), others, "{sockets:?}");
        }
    }

    #[test]
    fn calls_of_another_kind_of_program_are_not_let_through() {
        let program =
            assemble(&Wanted { denied: &[], sockets: Sockets::All, unix: true, notify: &[], attributes_stay: false });
        assert_eq!(run(&program, 0x4000_0003, 5, [0; 6]), KILL);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(run(&program, ARCHITECTURE, X32 | 2, [0; 6]), refuse(libc::ENOSYS));
    }
}
