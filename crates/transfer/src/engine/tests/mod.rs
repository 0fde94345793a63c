mod faults;
mod memory;
mod plans;
mod renamed;

use super::*;
use crate::report::Act;
use memory::{Handle, Memory};

/// Moves a folder into another; returns how it ended and what was told.
async fn moved(source: &Arc<Memory>, destination: &Arc<Memory>, options: Options) -> (Result<Report>, Vec<Event>) {
    let (stop, stopping) = watch::channel(false);
    let done = moved_until(source, destination, options, stopping).await;
    drop(stop);
    done
}

async fn moved_until(
    source: &Arc<Memory>,
    destination: &Arc<Memory>,
    options: Options,
    stop: watch::Receiver<bool>,
) -> (Result<Report>, Vec<Event>) {
    let leg = Leg { source: Arc::new(Handle(Arc::clone(source))), from: DrivePath::root(), to: DrivePath::root() };
    let job = Job { legs: vec![leg], destination: Arc::new(Handle(Arc::clone(destination))), options };
    let (events, mut told) = mpsc::channel(8);
    let listening = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(event) = told.recv().await {
            all.push(event);
        }
        all
    });
    let report = run(job, events, Arc::default(), stop).await;
    (report, listening.await.expect("listens"))
}

/// What was done, or would be, in an order of its own.
fn acts(events: &[Event]) -> Vec<Act> {
    let mut acts: Vec<Act> = events
        .iter()
        .filter_map(|event| match event {
            Event::Would(act) | Event::Did(act) => Some(act.clone()),
            _ => None,
        })
        .collect();
    acts.sort();
    acts
}

#[tokio::test]
async fn a_source_and_a_destination_that_are_in_each_other_are_refused() {
    let memory = Memory::new([(memory::path("a/b"), memory::Node::Folder)]);
    let site: Arc<dyn Site> = Arc::new(Handle(memory));
    for (from, to, delete, refused) in [
        ("a", "a", Delete::No, true),
        ("a", "a/b/c", Delete::No, true),
        ("", "a", Delete::No, true),
        ("a/b", "a", Delete::No, false),
        ("a/b", "a", Delete::AfterSuccess, true),
        ("a/b", "", Delete::AfterSuccess, true),
        ("a", "ab", Delete::AfterSuccess, false),
    ] {
        let leg = Leg { source: Arc::clone(&site), from: memory::path(from), to: memory::path(to) };
        let options = Options { delete, ..Options::default() };
        assert_eq!(apart(&leg, &*site, &options).is_err(), refused, "{from} to {to}");
    }
}
