//! Several clients at once, each answer still predictable.
//!
//! Every client works in its own folder, where it is alone, and at times in a shared folder, where
//! a lock in the test lets one in at a time. So each operation meets a state that the model knows,
//! while the server sees them side by side.

use parking_lot::Mutex;

use super::check::check_tree;
use super::generate::{Generator, Weights};
use super::play::{Failure, play};
use super::tree::Model;
use crate::http::Client;
use crate::rng::Prng;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Same seed, same operations of each client.
    pub seed: u64,
    /// Clients at once.
    pub clients: usize,
    /// Operations of each client.
    pub operations: usize,
    /// Share of them in the shared folder.
    pub shared: f64,
    /// Largest file.
    pub max_bytes: u64,
    /// Kinds of operations.
    pub weights: Weights,
    /// Operations of a client between two comparisons of its whole tree.
    pub check_every: usize,
}

impl Default for Workload {
    /// 10,000 operations of four clients, files up to two blocks.
    fn default() -> Self {
        Self {
            seed: 1,
            clients: 4,
            operations: 2500,
            shared: 0.2,
            max_bytes: 2 << 20,
            weights: Weights::default(),
            check_every: 500,
        }
    }
}

impl Workload {
    /// Runs it below the existing, empty folder `base`; each client gets a clone of `client`.
    /// Returns the number of operations that were done (not refused).
    pub fn run(&self, client: &Client, base: &str) -> Result<usize, Failure> {
        let mut rng = Prng::new(self.seed);
        let shared = Mutex::new(Model::new());
        let shared_base = format!("{base}/shared");
        client.clone().mkcol(&shared_base)?.expect_status(201)?;
        let done = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..self.clients {
                let (client, rng) = (client.clone(), rng.fork());
                let own_base = format!("{base}/client{number}");
                let (shared, shared_base) = (&shared, &shared_base);
                threads.push(scope.spawn(move || self.run_client(client, rng, &own_base, shared, shared_base)));
            }
            let results = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            results.sum::<Result<usize, Failure>>()
        })?;
        check_tree(&mut client.clone(), &shared_base, &shared.lock())?;
        Ok(done)
    }

    fn run_client(
        &self,
        mut client: Client,
        mut rng: Prng,
        base: &str,
        shared: &Mutex<Model>,
        shared_base: &str,
    ) -> Result<usize, Failure> {
        client.mkcol(base)?.expect_status(201)?;
        let mut model = Model::new();
        let mut generator = Generator::new(rng.next_u64(), self.weights, self.max_bytes);
        let mut done = 0;
        for number in 1..=self.operations {
            let status = if rng.chance(self.shared) {
                let mut shared = shared.lock();
                let op = generator.next_op(&shared);
                play(&mut client, shared_base, &mut shared, &op)?
            } else {
                let op = generator.next_op(&model);
                play(&mut client, base, &mut model, &op)?
            };
            done += usize::from(status < 300);
            if number % self.check_every == 0 {
                check_tree(&mut client, base, &model)?;
            }
        }
        check_tree(&mut client, base, &model)?;
        Ok(done)
    }
}
