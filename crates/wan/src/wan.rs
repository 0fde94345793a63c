//! Both hosts and the link between them.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::host::{Host, WanError};
use crate::kernel;
use crate::link::Link;
use crate::relay::{Forwarded, Watched, forward};
use crate::settings::{Datagrams, Impairments, Mode};

/// Nobody outside the two namespaces sees these (RFC 1918).
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 2);

/// One of the two ways over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the far host to the near one: what is fetched.
    ToNear,
    /// From the near host to the far one: what asks for it.
    ToFar,
}

/// What a link does, both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WanSettings {
    /// From the far host to the near one.
    pub to_near: Impairments,
    /// From the near host to the far one.
    pub to_far: Impairments,
    /// For everything that is decided by chance.
    pub seed: u64,
    /// Leave it to the netem of the kernel; both modes must be [`Mode::Netem`], and nothing but traffic is counted.
    pub kernel_netem: bool,
}

/// Two hosts and a link. Dropping it ends all of them.
#[derive(Debug)]
pub struct Wan {
    near: Host,
    far: Host,
    to_near: Way,
    to_far: Way,
    stop: OwnedFd,
}

/// A direction as it runs.
#[derive(Debug)]
struct Way {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

impl Wan {
    /// Makes both hosts and begins to forward. [`prepare`](crate::prepare) must have been called.
    pub fn start(settings: &WanSettings) -> Result<Self, WanError> {
        let in_kernel = settings.kernel_netem;
        if in_kernel && [settings.to_near, settings.to_far].iter().any(|impairments| impairments.mode != Mode::Netem) {
            return Err(WanError::NoNetem("the kernel's netem has only netem's rules".to_owned()));
        }
        let own = |impairments: Impairments| if in_kernel { Impairments::default() } else { impairments };
        // Ways with one seed would lose packets of the same numbers.
        let to_near = Link::new(own(settings.to_near), settings.seed)?;
        let to_far = Link::new(own(settings.to_far), settings.seed ^ 0xffff_ffff)?;
        let (near, near_end) = Host::new(NEAR)?;
        let (far, far_end) = Host::new(FAR)?;
        if in_kernel {
            settings.to_near.check()?;
            settings.to_far.check()?;
            kernel::add_netem(&far, &settings.to_near)?;
            kernel::add_netem(&near, &settings.to_far)?;
        }
        let io = |why| WanError::Io { what: "cannot start the forwarders", why };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| io(error.into()))?;
        let way = |name, from: &OwnedFd, to: &OwnedFd, link| Way::start(name, from, to, link, &stop).map_err(io);
        let to_near = way("wan-to-near", &far_end, &near_end, to_near)?;
        let to_far = way("wan-to-far", &near_end, &far_end, to_far)?;
        Ok(Self { near, far, to_near, to_far, stop })
    }

    /// The host that fetches.
    pub fn near(&self) -> &Host {
        &self.near
    }

    /// The host that has what is fetched.
    pub fn far(&self) -> &Host {
        &self.far
    }

    /// What was forwarded so far.
    pub fn forwarded(&self, direction: Direction) -> Forwarded {
        match direction {
            Direction::ToNear => self.to_near.watched.forwarded(),
            Direction::ToFar => self.to_far.watched.forwarded(),
        }
    }

    /// What becomes of UDP from now on, both ways.
    pub fn treat(&self, datagrams: Datagrams) {
        self.to_near.watched.treat(datagrams);
        self.to_far.watched.treat(datagrams);
    }

    /// Whether nothing gets through from now on, either way; what is on the link arrives.
    pub fn cut(&self, is_cut: bool) {
        self.to_near.watched.cut(is_cut);
        self.to_far.watched.cut(is_cut);
    }

    /// Packets that a kernel could not hand over in time, and that the link therefore never saw.
    pub fn unread(&self) -> io::Result<u64> {
        Ok(self.near.unread()? + self.far.unread()?)
    }

    /// Why nothing is forwarded any more, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.to_near.watched.failure().or_else(|| self.to_far.watched.failure())
    }
}

impl Way {
    fn start(name: &str, from: &OwnedFd, to: &OwnedFd, link: Link, stop: &OwnedFd) -> io::Result<Self> {
        let watched = Arc::new(Watched::default());
        let (from, to, stop, seen) = (from.try_clone()?, to.try_clone()?, stop.try_clone()?, Arc::clone(&watched));
        let work = move || forward(&from, &to, link, &seen, &stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { watched, thread: Some(thread) })
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        for way in [&mut self.to_near, &mut self.to_far] {
            let _ = way.thread.take().map(JoinHandle::join);
        }
    }
}
