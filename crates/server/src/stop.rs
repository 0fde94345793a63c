//! Stopping: what asks for it and in which order things end.
//!
//! SIGTERM or SIGINT: after a delay for balancers, if one is configured, the listeners close, idle connections end, running requests get the drain time, then what still runs is
//! cut off (an upload that is cut off changes nothing). A second signal cuts at once. SIGHUP reads the certificate and job files again;
//! SIGUSR1 runs a reclaim.

use crate::conn::Stage;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::Sender;
use tokio::sync::{Notify, Semaphore};

/// Asks a running server to stop; clones ask the same server.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Asks once more: the first time to stop in good order, the second to stop at once.
    pub fn stop(&self) {
        self.0.notify_one();
    }

    async fn asked(&self) {
        self.0.notified().await;
    }
}

/// The signals of a server.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    user_1: Signal,
}

/// What a server was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To stop.
    Stop,
    /// To read files again.
    Reload,
    /// To give space back.
    Reclaim,
}

impl Signals {
    /// Takes the signals over from their default actions.
    pub(crate) fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next wish.
    pub(crate) async fn next(&mut self, stopper: &Stopper) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::Stop,
            () = stopper.asked() => Wish::Stop,
            _ = self.hang_up.recv() => Wish::Reload,
            _ = self.user_1.recv() => Wish::Reclaim,
        }
    }
}

impl Signals {
    /// Waits for a time, or until the server is told to stop once more.
    pub(crate) async fn until_stop_or(&mut self, time: Duration, stopper: &Stopper) {
        let again = async { while self.next(stopper).await != Wish::Stop {} };
        // Either ends the wait.
        let _ = tokio::time::timeout(time, again).await;
    }
}

/// Lets running requests finish; answers whether all did. `room` has `connections_max` permits, one a connection.
pub(crate) async fn drain(
    stage: &Sender<Stage>,
    room: &Arc<Semaphore>,
    connections_max: usize,
    limit: Duration,
    signals: &mut Signals,
    stopper: &Stopper,
) -> bool {
    stage.send_replace(Stage::Draining);
    let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
    let every_one = room.clone().acquire_many_owned(all);
    let again = async { while signals.next(stopper).await != Wish::Stop {} };
    let whole = tokio::select! {
        biased;
        done = tokio::time::timeout(limit, every_one) => done.is_ok(),
        () = again => false,
    };
    stage.send_replace(Stage::Ending);
    whole
}
