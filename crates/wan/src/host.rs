//! One of the two hosts: a network namespace with a TUN device, and what is done in it.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::kernel;
use crate::netlink;
use crate::settings::Invalid;
use crate::sys::{self, DEVICE, Device, OFFLOADS};

/// Full packets, as on an Ethernet.
const MTU: i32 = 1500;
/// Packets that may wait until the forwarder reads them: 0.1 s at 1 Gbit/s. What finds no room is counted by the kernel and told.
const DEVICE_QUEUE: i32 = 10_000;
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const PREFIX_BITS: u8 = 24;

/// What keeps a link from being made or used.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// Settings that make no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Not allowed to make namespaces.
    #[error("cannot make a network namespace: run it as root, or allow user namespaces ({0})")]
    Namespace(#[source] io::Error),
    /// No TUN device.
    #[error("cannot make a TUN device: /dev/net/tun must be there and open to this user ({0})")]
    Tun(#[source] io::Error),
    /// A setting of a namespace that the kernel refused.
    #[error("cannot set {what} in the namespace ({why})")]
    Setting {
        /// Which one.
        what: String,
        /// The kernel's answer.
        why: io::Error,
    },
    /// The kernel's own emulator was asked for, and is not there.
    #[error("{0}")]
    NoNetem(String),
    /// Anything else.
    #[error("{what}: {why}")]
    Io {
        /// What was done.
        what: &'static str,
        /// The system's answer.
        why: io::Error,
    },
}

/// Makes sure that this process may make network namespaces: root may; anybody else becomes root of a user namespace of this process's own.
///
/// Call it before the process has a second thread, or the kernel refuses the user namespace.
pub fn prepare() -> Result<(), WanError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let enter = || -> io::Result<()> {
        sys::unshare(UnshareFlags::NEWUSER)?;
        // In this order: groups can be mapped by somebody without rights only when they cannot be given up (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
    };
    enter().map_err(WanError::Namespace)
}

/// A host: a network namespace that lives as long as this, and the commands in it.
#[derive(Debug)]
pub struct Host {
    namespace: OwnedFd,
    address: Ipv4Addr,
}

impl Host {
    /// A new namespace with this address on its end of the link, and that end.
    pub(crate) fn new(address: Ipv4Addr) -> Result<(Self, OwnedFd), WanError> {
        // A thread of its own, because a namespace is a thread's.
        in_thread(|| {
            sys::unshare(UnshareFlags::NEWNET).map_err(WanError::Namespace)?;
            let io = |what| move |why| WanError::Io { what, why };
            let namespace =
                File::open("/proc/thread-self/ns/net").map_err(io("cannot open the namespace of a thread"))?.into();
            // Nobody speaks IPv6 here, and its discovery of neighbours would be packets that nobody sent.
            if Path::new("/proc/sys/net/ipv6").exists() {
                set("net.ipv6.conf.all.disable_ipv6", "1")?;
                set("net.ipv6.conf.default.disable_ipv6", "1")?;
            }
            Device::new("lo").and_then(|lo| lo.set_up()).map_err(io("cannot switch the loopback device on"))?;
            let tun = sys::open_tun().map_err(WanError::Tun)?;
            let configure = || {
                let device = Device::new(DEVICE)?;
                device.set_address(address, MASK)?;
                device.set_mtu(MTU)?;
                // The kernel lets only the machine's root do so; 500 packets do for anybody else, and drops are counted.
                let _ = device.set_queue(DEVICE_QUEUE);
                device.set_up()
            };
            configure().map_err(io("cannot configure the TUN device"))?;
            Ok((Self { namespace, address }, tun))
        })
    }

    /// The address on the link that it began with.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Gives it another address on the link, in place of the one it has: the far host sees somebody else, and what is sent to the old one finds nobody.
    pub fn move_to(&self, address: Ipv4Addr) -> Result<(), WanError> {
        let set = || Device::new(DEVICE)?.set_address(address, MASK);
        let what = || format!("the address {address}");
        self.run(set).and_then(|set| set).map_err(|why| WanError::Setting { what: what(), why })
    }

    /// Does something in the namespace: sockets that are made there stay there, and so do processes.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Sets a kernel parameter of the namespace by its name, such as `net.ipv4.tcp_rmem`.
    pub fn set(&self, name: &str, value: &str) -> Result<(), WanError> {
        self.run(|| set(name, value)).map_err(|why| WanError::Setting { what: name.to_owned(), why })?
    }

    /// Has TCP use this congestion control on all connections over the link.
    pub fn set_congestion(&self, algorithm: &str) -> Result<(), WanError> {
        let set = || netlink::set_congestion(DEVICE, self.address, PREFIX_BITS, algorithm);
        let what = || format!("the congestion control {algorithm}");
        self.run(set).and_then(|set| set).map_err(|why| WanError::Setting { what: what(), why })
    }

    /// The counters of the kernel in this namespace, from one of `/proc/net/snmp` and `/proc/net/netstat`: `Udp`, `InCsumErrors`.
    pub fn counter(&self, protocol: &str, name: &str) -> io::Result<u64> {
        let text = self.run(|| {
            let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
            Ok::<_, io::Error>(read("snmp")? + &read("netstat")?)
        })??;
        kernel::counter(&text, protocol, name).ok_or_else(|| io::Error::other(format!("no counter {protocol}.{name}")))
    }

    /// Whether a process here listens for TCP connections at this port.
    pub fn listens(&self, port: u16) -> io::Result<bool> {
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        self.run(|| kernel::listens(&(read("tcp") + &read("tcp6")), port))
    }

    /// Packets that the kernel could not hand over to the forwarder, because it did not read them in time.
    pub(crate) fn unread(&self) -> io::Result<u64> {
        let text = self.run(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        kernel::dropped_on_sending(&text, DEVICE).ok_or_else(|| io::Error::other("the TUN device is gone"))
    }

    /// Has packets go through the kernel's queue one by one.
    pub(crate) fn no_offloads(&self) -> io::Result<()> {
        self.run(|| OFFLOADS.iter().try_for_each(|&offload| Device::new(DEVICE)?.no_offload(offload)))?
    }

    /// Moves the calling thread here.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    pub(crate) fn share(&self) -> io::Result<Self> {
        Ok(Self { namespace: self.namespace.try_clone()?, address: self.address })
    }
}

/// In the namespace of the calling thread.
fn set(name: &str, value: &str) -> Result<(), WanError> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let good = name.starts_with("net.") && !name.contains(['/', '\0']) && !name.contains("..");
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "only parameters below net. belong to a namespace");
    let written = if good { fs::write(path, value) } else { Err(refused()) };
    written.map_err(|why| WanError::Setting { what: format!("{name}={value}"), why })
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
