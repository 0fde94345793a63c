//! System calls that neither the standard library nor rustix offers in a safe form. All `unsafe` of this crate is here.

#![expect(unsafe_code, reason = "foreign functions; see the safety comments")]

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Pid, Signal};
use rustix::thread::UnshareFlags;

/// Gives the calling thread new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors are shared by all threads");
    // SAFETY: what can go wrong is descriptors of one thread that another one does not see, and that flag is not among them.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Has the calling thread run before everything that is not as urgent, as soon as it has something to do (sched(7)).
pub(crate) fn run_first() -> io::Result<()> {
    let lowest_of_the_urgent = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a variable of the right type that outlives the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest_of_the_urgent) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the command killed when the thread that starts it ends.
pub(crate) fn end_with_parent(command: &mut Command) {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec the closure makes one system call; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

/// What a process and those it waited for have cost. Their peak memory is not here: what the kernel says of it begins with the memory of
/// the process that started them.
pub(crate) struct Usage {
    pub(crate) status: ExitStatus,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

/// Waits for a child and takes its place in the process table away.
pub(crate) fn wait(pid: Pid) -> io::Result<Usage> {
    let mut status = 0;
    // SAFETY: `rusage` is numbers only, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to variables of the right types that outlive the call.
        let found = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) };
        if found >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Usage {
        status: ExitStatus::from_raw(status),
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
    })
}

/// The name of the device in each namespace.
pub(crate) const DEVICE: &str = "wan0";

/// Makes the TUN device of the calling thread's network namespace. What is read from and written to it are IP packets and nothing else:
/// without the offload header the kernel completes checksums and cuts segments before it hands packets over, and verifies what it gets.
pub(crate) fn open_tun() -> io::Result<OwnedFd> {
    let tun = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = Request::new(DEVICE);
    let flags = libc::IFF_TUN | libc::IFF_NO_PI;
    request.0.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).expect("two low bits");
    request.send(&tun, libc::TUNSETIFF)?;
    rustix::io::ioctl_fionbio(&tun, true)?;
    Ok(tun.into())
}

/// Settings of a network device of the calling thread's namespace.
pub(crate) struct Device {
    name: &'static str,
    control: OwnedFd,
}

impl Device {
    pub(crate) fn new(name: &'static str) -> io::Result<Self> {
        Ok(Self { name, control: socket(AddressFamily::INET, SocketType::DGRAM, None)? })
    }

    pub(crate) fn set_address(&self, address: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
        for (address, what) in [(address, libc::SIOCSIFADDR), (mask, libc::SIOCSIFNETMASK)] {
            let mut request = Request::new(self.name);
            // As `sockaddr_in`: two bytes of a port, which nobody reads here, and the address.
            let mut data = [0; 14];
            for (place, octet) in data[2..].iter_mut().zip(address.octets()) {
                *place = libc::c_char::from_ne_bytes([octet]);
            }
            let sa_family = libc::sa_family_t::try_from(libc::AF_INET).expect("a small number");
            request.0.ifr_ifru.ifru_addr = libc::sockaddr { sa_family, sa_data: data };
            request.send(&self.control, what)?;
        }
        Ok(())
    }

    pub(crate) fn set_mtu(&self, bytes: i32) -> io::Result<()> {
        let mut request = Request::new(self.name);
        request.0.ifr_ifru.ifru_mtu = bytes;
        request.send(&self.control, libc::SIOCSIFMTU)
    }

    /// How many packets may wait for whoever reads the device.
    pub(crate) fn set_queue(&self, packets: i32) -> io::Result<()> {
        let mut request = Request::new(self.name);
        request.0.ifr_ifru.ifru_metric = packets;
        request.send(&self.control, libc::SIOCSIFTXQLEN)
    }

    pub(crate) fn set_up(&self) -> io::Result<()> {
        let mut request = Request::new(self.name);
        request.0.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).expect("the lowest bit");
        request.send(&self.control, libc::SIOCSIFFLAGS)
    }

    /// Switches an offload off that would hand several packets over as one (`ETHTOOL_SGSO`, `ETHTOOL_SGRO`: `linux/ethtool.h`).
    pub(crate) fn no_offload(&self, command: u32) -> io::Result<()> {
        let mut value = [command, 0_u32];
        let mut request = Request::new(self.name);
        request.0.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        request.send(&self.control, libc::SIOCETHTOOL)
    }
}

/// Cutting of segments after the queue, and joining of them on arrival.
pub(crate) const OFFLOADS: [u32; 2] = [0x24, 0x2c];

/// `struct ifreq`: a device and one setting.
struct Request(libc::ifreq);

impl Request {
    fn new(device: &str) -> Self {
        // SAFETY: it is bytes, numbers and a pointer that is only read for SIOCETHTOOL; zeros are valid for all of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero: names are shorter than the array.
        for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        Self(request)
    }

    fn send(&mut self, at: &impl AsRawFd, what: libc::Ioctl) -> io::Result<()> {
        // SAFETY: every request that is sent here takes a pointer to an `ifreq`, which outlives the call, as does what it points to.
        let result = unsafe { libc::ioctl(at.as_raw_fd(), what, &raw mut self.0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
