//! The supervisor's threads for those who follow the log.

use super::{Log, Reply, write};
use crate::Confined;
use crate::recent::Page;
use holdfast_base::{Error, ErrorKind, Result};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Most that may follow one program at a time.
pub const FOLLOWERS_MAX: usize = 8;
/// Longest that one of them may not read. It holds up the supervisor's own end, too.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after which it is looked whether they are still there.
const LOOK: Duration = Duration::from_secs(1);

/// Those who follow.
#[derive(Default)]
pub(super) struct Followers(Vec<JoinHandle<()>>);

impl Followers {
    /// Has another one follow.
    pub(super) fn add(&mut self, stream: UnixStream, confined: Arc<Confined>) -> Result<()> {
        self.0.retain(|follower| !follower.is_finished());
        if self.0.len() >= FOLLOWERS_MAX {
            return Err(Error::new(ErrorKind::Conflict, format!("{FOLLOWERS_MAX} follow its log already")));
        }
        stream.set_write_timeout(Some(PATIENCE))?;
        let tell = move || {
            // Whoever followed may be gone, which is the end of it.
            let _ = tell(&stream, &confined);
        };
        self.0.push(std::thread::Builder::new().name("follower".into()).spawn(tell)?);
        Ok(())
    }

    /// Waits until all of them have been told of everything. The log must have ended.
    pub(super) fn finish(&mut self) {
        for follower in self.0.drain(..) {
            let _ = follower.join();
        }
    }
}

fn tell(stream: &UnixStream, confined: &Confined) -> Result<()> {
    let Some(recent) = confined.log().map(crate::audit::Log::recent) else {
        // There is nothing to come.
        return write(stream, &Reply::Log(Log { ended: true, ..log(confined, Page::default()) }));
    };
    let mut page = recent.since(0);
    loop {
        let (next, ended) = (page.next, page.ended);
        write(stream, &Reply::Log(log(confined, page)))?;
        if ended {
            return Ok(());
        }
        loop {
            page = recent.wait_since(next, LOOK);
            if is_gone(stream) {
                return Ok(());
            }
            if page.next > next || page.ended {
                break;
            }
        }
    }
}

/// Whether nobody reads any more.
fn is_gone(stream: &UnixStream) -> bool {
    use rustix::net::{RecvFlags, recv};
    // Nothing comes on it but its end.
    matches!(recv(stream, &mut [0_u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK), Ok((0, _)))
}

/// What is answered.
pub(super) fn log(confined: &Confined, page: Page) -> Log {
    let counters = confined.counters().map(Into::into);
    Log { seen: confined.seen(), counters, records: page.records, missed: page.missed, ended: page.ended }
}
