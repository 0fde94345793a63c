//! What is told of jobs, and asked of them.

use holdfast_base::{Error, Result};
use holdfast_jobs::Job;
use holdfast_jobs::carry::{Done, Live, Order};
use holdfast_jobs::desk::Preview;
use holdfast_jobs::preview::next_times;
use holdfast_jobs::store::RunRow;
use holdfast_transfer::{Network, What};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TransferJobsBody {
    /// Whether the node that answers is told of jobs.
    pub(super) configured: bool,
    /// When this was asked.
    pub(super) now_ms: i64,
    /// The node that runs them; absent while none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner: Option<String>,
    /// By name.
    pub(super) jobs: Vec<TransferJobBody>,
}

impl TransferJobsBody {
    pub(super) fn none(now: Timestamp) -> Self {
        Self { configured: false, now_ms: now.as_millisecond(), runner: None, jobs: Vec::new() }
    }
}

/// What a job does now.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobState {
    /// It waits for its time.
    Waits,
    /// It was asked for, and begins soon.
    Asked,
    /// It is under way.
    Running,
    /// It runs only when it is asked for.
    Inactive,
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TransferJobBody {
    /// Its name.
    name: String,
    /// What it does now.
    state: JobState,
    /// What is moved.
    from: Vec<String>,
    /// Where to.
    to: String,
    /// What makes it run.
    when: String,
    /// When it is due next; absent if it is not by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<i64>,
    /// Its variables, of which other values can be asked for.
    variables: Vec<String>,
    /// The file that describes it.
    file: String,
    /// The line.
    line: usize,
    /// The run that is under way, or else its last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<JobRunBody>,
    /// The last run that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ended: Option<JobRunBody>,
}

/// A job's run of several jobs'.
pub(super) fn last_of<'r>(runs: &'r [RunRow], job: &Job) -> Option<&'r RunRow> {
    runs.iter().find(|run| run.job == job.name)
}

impl TransferJobBody {
    pub(super) fn of(job: &Job, last: Option<&RunRow>, ended: Option<&RunRow>, now: Timestamp) -> Self {
        let text = &job.text;
        let state = match last {
            Some(RunRow { began_ms: None, ended_ms: None, .. }) => JobState::Asked,
            Some(RunRow { ended_ms: None, .. }) => JobState::Running,
            _ if !text.active => JobState::Inactive,
            _ => JobState::Waits,
        };
        let next = next_times(job, now).into_iter().next().filter(|_| text.active);
        Self {
            name: job.name.clone(),
            state,
            from: text.from.0.iter().map(|from| from.text().to_owned()).collect(),
            to: text.to.text().to_owned(),
            when: job.when(),
            next_ms: next.map(|next| next.timestamp().as_millisecond()),
            variables: text.variables.keys().cloned().collect(),
            file: job.file.display().to_string(),
            line: job.line,
            last: last.cloned().map(Into::into),
            last_ended: ended.cloned().map(Into::into),
        }
    }
}

/// A run of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobRunBody {
    /// Its number.
    run: i64,
    /// Why: `schedule`, `start`, `command`, `api`, `inbox`, `mail`, `retry` or `resume`.
    trigger: String,
    /// The account that asked for it, or the sender of the mail that did, with its number.
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    /// When it was due, or asked for.
    due_ms: i64,
    /// When it began; absent while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    began_ms: Option<i64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<i64>,
    /// Runs that were tried before for the same.
    attempt: u32,
    /// How it ended: `succeeded`, `partial`, `failed`, `put-aside`, `interrupted` or `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// What it did so far.
    done: DoneBody,
    /// How fast it is, and how far, while it is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<LiveBody>,
    /// The first of what failed.
    errors: Vec<String>,
    /// What failed of its steps.
    step_errors: Vec<String>,
}

impl From<RunRow> for JobRunBody {
    fn from(run: RunRow) -> Self {
        let live = run.done.live.clone().filter(|_| run.ended_ms.is_none()).map(Into::into);
        Self {
            run: run.id,
            trigger: run.trigger.word().to_owned(),
            by: run.by,
            due_ms: run.due_ms,
            began_ms: run.began_ms,
            ended_ms: run.ended_ms,
            attempt: run.attempt,
            result: run.result.map(|result| result.word().to_owned()),
            done: run.done.into(),
            live,
            errors: run.errors,
            step_errors: run.step_errors,
        }
    }
}

/// What a run did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoneBody {
    /// Files and links that were found.
    found: u64,
    /// Files and links that arrived.
    arrived: u64,
    /// Bytes that were moved.
    moved_bytes: u64,
    /// Files and links that were there already.
    same: u64,
    /// Those left out because of what is there.
    skipped: u64,
    /// What failed.
    failed: u64,
    /// What was removed, at the destination and the source.
    removed: u64,
    /// Tries that were repeated.
    retries: u64,
    /// Files and links that were compared afterwards, and are the same.
    verified: u64,
    /// How the network was when it was looked at last; absent if neither end is a drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<NetworkBody>,
}

impl From<Done> for DoneBody {
    fn from(done: Done) -> Self {
        Self {
            found: done.found,
            arrived: done.files + done.links,
            moved_bytes: done.moved_bytes,
            same: done.same,
            skipped: done.skipped,
            failed: done.failed,
            removed: done.deleted + done.deleted_source,
            retries: done.retries,
            verified: done.verified,
            network: done.network.map(Into::into),
        }
    }
}

/// How the network to a drive is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NetworkBody {
    /// The transport: `tcp` or `quic`.
    plane: String,
    /// The least round trip that was seen, in milliseconds.
    rtt_ms: f64,
    /// Share of what was sent lately that did not arrive, in the worse direction; absent over TCP, which does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<f64>,
    /// Connections in use.
    connections: usize,
    /// Why it is that transport: `asked`, `near`, `far`, `blocked` (the other does not get through), `lossy` (over the other much is lost), `faster`, `compared` (the other is no faster).
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Whether that was found out by an earlier transfer.
    remembered: bool,
}

impl From<Network> for NetworkBody {
    fn from(network: Network) -> Self {
        let (plane, rtt_ms) = (network.plane_name().to_owned(), network.rtt.as_secs_f64() * 1e3);
        let Network { lost, connections, why, remembered, .. } = network;
        Self { plane, rtt_ms, lost, connections, why: why.map(|why| why.word().to_owned()), remembered }
    }
}

/// How fast a run is, and how far.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveBody {
    /// Bytes a second, over the last seconds.
    rate: u64,
    /// Bytes of what was found so far.
    found_bytes: u64,
    /// Those of them that are dealt with.
    settled_bytes: u64,
    /// Seconds that are left at this rate; absent until all is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_s: Option<u64>,
    /// Files that are being moved, the first of them.
    moving: Vec<String>,
}

impl From<Live> for LiveBody {
    fn from(live: Live) -> Self {
        let Live { rate, found_bytes, settled_bytes, left_s, moving } = live;
        Self { rate, found_bytes, settled_bytes, left_s, moving }
    }
}

/// Runs of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobRunsBody {
    /// The latest first.
    pub(super) runs: Vec<JobRunBody>,
    /// What to ask for as `before` to get the next page; absent if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<i64>,
}

/// What of a job is wanted: by default all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderBody {
    /// Other values of its variables: texts, numbers, or lists of texts, without slashes.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>)]
    variables: BTreeMap<String, serde_json::Value>,
    /// Paths below what it moves; absent is all of it.
    #[serde(default)]
    names: Option<Vec<String>>,
}

impl OrderBody {
    pub(super) fn order(self) -> Result<Order> {
        let order = serde_json::json!({ "variables": self.variables, "names": self.names });
        serde_json::from_value(order).map_err(|error| Error::invalid(format!("variables: {error}")))
    }
}

/// A run that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StartedBody {
    /// Its number.
    pub(super) run: i64,
}

/// What a job would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPreviewBody {
    /// When it is due next.
    times_ms: Vec<i64>,
    /// What it would do now, in no order.
    acts: Vec<ActBody>,
    /// Whether it would do more, or was not looked at to its end.
    more: bool,
    /// Files and links that are there already.
    same: u64,
    /// Those left out.
    skipped: u64,
    /// What fails.
    errors: Vec<String>,
}

/// What would be done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActBody {
    /// `folder`, `file`, `link`, `delete` or `delete-source`.
    what: String,
    /// Where.
    path: String,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Whether something else is there.
    replaces: bool,
}

impl From<Preview> for JobPreviewBody {
    fn from(preview: Preview) -> Self {
        let acts = preview.acts.into_iter().map(|(destination, act)| {
            let (what, size_bytes, replaces) = match act.what {
                What::Folder => ("folder", None, false),
                What::File { bytes, replaces } => ("file", Some(bytes), replaces),
                What::Link { replaces, .. } => ("link", None, replaces),
                What::Delete => ("delete", None, false),
                What::DeleteSource => ("delete-source", None, false),
            };
            let path = format!("{}{}", destination.trim_end_matches('/'), act.path);
            ActBody { what: what.to_owned(), path, size_bytes, replaces }
        });
        Self {
            times_ms: preview.times.iter().map(|time| time.timestamp().as_millisecond()).collect(),
            acts: acts.collect(),
            more: preview.more,
            same: preview.outcome.done.same,
            skipped: preview.outcome.done.skipped,
            errors: preview.outcome.errors,
        }
    }
}
