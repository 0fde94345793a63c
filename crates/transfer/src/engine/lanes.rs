//! What is found is dealt with in two lanes, so that many small files overlap and do not wait for large ones.

use super::folders::Folder;
use super::one::Found;
use super::run::Run;
use holdfast_base::limits::BLOCK_BYTES;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

/// What waits in a lane: enough to keep it busy, and bounded however much there is.
const WAITING_MAX: usize = 1_024;

/// Something to be dealt with.
pub(super) enum Task {
    Folder(Arc<Folder>),
    Found(Box<Found>),
}

/// Two queues and who works on them.
pub(super) struct Lanes {
    small: mpsc::Sender<Task>,
    large: mpsc::Sender<Task>,
    workers: JoinSet<()>,
}

impl Lanes {
    pub(super) fn start(run: &Arc<Run>) -> Self {
        let mut workers = JoinSet::new();
        let mut lane = |count: usize| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..count.max(1) {
                workers.spawn(work(Arc::clone(run), Arc::clone(&receiver)));
            }
            sender
        };
        let (small, large) = (lane(run.options.small_files), lane(run.options.large_files));
        Self { small, large, workers }
    }

    /// Waits for room, and then not for the work.
    pub(super) async fn give(&self, task: Task) {
        let lane = match &task {
            Task::Found(found) if found.item.size > BLOCK_BYTES as u64 => &self.large,
            _ => &self.small,
        };
        // Workers end after the last sender does.
        let _ = lane.send(task).await;
    }

    /// Waits until everything is done.
    pub(super) async fn finish(self) {
        let Self { small, large, mut workers } = self;
        drop((small, large));
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

async fn work(run: Arc<Run>, tasks: Arc<Mutex<mpsc::Receiver<Task>>>) {
    loop {
        let task = tasks.lock().await.recv().await;
        match task {
            None => return,
            // The rest is let go of.
            Some(_) if run.is_stopped() => {}
            Some(Task::Folder(folder)) => {
                if let Err(error) = folder.ensure(&run).await {
                    run.failed(&folder.path, &error).await;
                }
            }
            Some(Task::Found(found)) => found.settle(&run).await,
        }
    }
}
