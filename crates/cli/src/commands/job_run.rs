//! `holdfast job run`, `start` and `preview`: what moves, or would.

use super::job::{NamedArgs, RunArgs, StartArgs};
use super::job_bars::JobBars;
use super::job_show::{ended_words, run_json};
use super::transfer::listen;
use super::transfer_words::{event_json, trouble_words, would_words};
use crate::output;
use holdfast_base::{Error, SystemClock};
use holdfast_jobs::carry::{Ended, Order, Run, Tally, Told};
use holdfast_jobs::file::{Described, Set};
use holdfast_jobs::limit::Limits;
use holdfast_jobs::preview::next_times;
use holdfast_jobs::runner::{Hears, Host, Notice, Runner, State, Stops, Wanted, perform, recover};
use holdfast_jobs::store::Trigger;
use holdfast_transfer::Event;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Events that wait to be shown.
const EVENTS_MAX: usize = 1_024;

fn host(state: State) -> holdfast_base::Result<Arc<Host>> {
    let store = Arc::new(state.store()?);
    Ok(Arc::new(Host { state: Some(state), store, limits: Limits::default(), clock: Arc::new(SystemClock) }))
}

/// The first signal puts aside what is under way, a second one ends at once.
fn stopping() -> anyhow::Result<(watch::Receiver<bool>, tokio::task::JoinHandle<u8>)> {
    let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (stop, stopping) = watch::channel(false);
    Ok((stopping, tokio::spawn(listen(signals, stop))))
}

/// `run`.
pub(super) async fn run(args: &RunArgs, json: bool) -> anyhow::Result<ExitCode> {
    let state = args.state.open()?;
    let _lock = state.lock()?;
    let (stop, _code) = stopping()?;
    let mut hangups = signal(SignalKind::hangup())?;
    let described = Arc::new(Described::read(args.files.clone())?);
    let (notices, mut told) = mpsc::channel(EVENTS_MAX);
    let runner = Runner::new(host(state)?, Arc::clone(&described), notices.clone());
    let hearing = tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            if let Err(error) = described.reload() {
                let _ = notices.send(Notice::NotReloaded(error)).await;
            }
        }
    });
    let mut bars = JobBars::new(json);
    let showing = tokio::spawn(async move {
        while let Some(notice) = told.recv().await {
            bars.show(&notice);
        }
    });
    let done = runner.run(stop).await;
    hearing.abort();
    showing.await?;
    done?;
    Ok(ExitCode::SUCCESS)
}

/// `start`.
pub(super) async fn start(args: &StartArgs, json: bool) -> anyhow::Result<ExitCode> {
    let set = Set::load(&args.named.files)?;
    let job = Arc::clone(set.job(&args.named.name)?);
    let host = host(args.state.open()?)?;
    let busy = || Error::conflict(format!("a run of {} is under way already", job.name));
    let _lock = host.lock_job(&job.name)?.ok_or_else(busy)?;
    recover(&host, &job).await?;
    let (stop, code) = stopping()?;
    let wanted = Wanted::all(Trigger::Command, host.now());
    let (_cancel, cancel) = watch::channel(false);
    let stops = Stops { stop: &stop, quit: &stop, cancel: &cancel };
    let (events, told) = mpsc::channel(EVENTS_MAX);
    let (notices, heard) = mpsc::channel(1);
    let showing = tokio::spawn(show(told, heard, json));
    let progress = |row| drop(notices.try_send(Notice::Progress(row)));
    let listening = Hears { events: &events, began: async |_| {}, progress: &progress };
    let done = Box::pin(perform(&host, &set, &job, &wanted, listening, &stops)).await;
    drop((events, notices));
    showing.await?;
    let (row, outcome) = done?;
    output::print(&if json { run_json(&row).to_string() } else { ended_words(&row) });
    if outcome.result == Ended::PutAside {
        return Ok(ExitCode::from(code.await?));
    }
    Ok(ExitCode::from(outcome.exit_code))
}

/// `preview`.
pub(super) async fn preview(args: &NamedArgs, json: bool) -> anyhow::Result<ExitCode> {
    let set = Set::load(&args.files)?;
    let job = set.job(&args.name)?;
    let now = holdfast_jobs::now();
    let times: Vec<String> = next_times(job, now).iter().map(ToString::to_string).collect();
    if json {
        output::print(
            &json!({ "event": "next", "job": job.name, "active": job.text.active, "times": times }).to_string(),
        );
    } else if times.is_empty() {
        output::print("It is due by no schedule.");
    } else {
        output::print(&format!("It is due next:\n  {}", times.join("\n  ")));
    }
    let (stop, code) = stopping()?;
    let (events, told) = mpsc::channel(EVENTS_MAX);
    let (_, unheard) = mpsc::channel(1);
    let showing = tokio::spawn(show(told, unheard, json));
    let limits = Limits::default();
    let due = now.to_zoned_datetime(job.schedule.zone.clone());
    let run = Run { job, set: &set, due, order: Order::default(), limits: &limits, dry_run: true };
    let outcome = run.carry_out(&events, &Arc::new(Tally::default()), &stop).await;
    drop(events);
    showing.await?;
    if json {
        output::print(
            &json!({ "event": "end", "result": outcome.result, "done": outcome.done, "errors": outcome.errors })
                .to_string(),
        );
    } else {
        let done = &outcome.done;
        let would = done.files + done.links;
        output::print(&format!(
            "{would} would be moved, {} are there already, {} are left out, {} fail.",
            done.same, done.skipped, done.failed
        ));
        if outcome.result == Ended::Failed {
            outcome.errors.iter().for_each(|error| eprintln!("{error}"));
        }
    }
    if outcome.result == Ended::PutAside {
        return Ok(ExitCode::from(code.await?));
    }
    Ok(ExitCode::from(outcome.exit_code))
}

/// Shows what happens, and how far it is, until nobody tells of it any more.
async fn show(mut told: mpsc::Receiver<Told>, mut notices: mpsc::Receiver<Notice>, json: bool) {
    let mut bars = JobBars::new(json);
    loop {
        tokio::select! {
            told = told.recv() => match told {
                Some(told) => bars.beside(|| say(&told, json)),
                None => break,
            },
            Some(notice) = notices.recv() => bars.show(&notice),
        }
    }
}

fn say(Told { destination, event }: &Told, json: bool) {
    if json {
        let mut value = event_json(event);
        value["destination"] = destination.as_ref().into();
        output::print(&value.to_string());
    } else if let Event::Would(act) = event {
        output::print(&would_words(act, destination.trim_end_matches('/')));
    } else if let Some(words) = trouble_words(event) {
        eprintln!("{words}");
    }
}
