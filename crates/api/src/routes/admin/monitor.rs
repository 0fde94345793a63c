//! How the nodes do.

use crate::Api;
use crate::extract::{Caller, Query};
use crate::figures::Figures;
use crate::problem::Failure;
use crate::routes::Failures;
use axum::extract::State;
use holdfast_base::{Clock, Error, SystemClock};
use holdfast_meta::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Minutes of all nodes read for one answer at most: a day of twenty.
const MINUTES_MAX: usize = 1_440 * 20;
const DAY_MS: i64 = 86_400_000;
/// A node says how it does every ten seconds; what it said three times longer ago is not now.
const NOW_MS: i64 = 30_000;

/// What a node said last.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeFigures {
    /// Its name.
    node: String,
    /// When it said so.
    at_ms: i64,
    /// What.
    figures: Figures,
}

/// How the drive does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MonitorBody {
    /// When this was asked.
    now_ms: i64,
    /// Ten seconds of all nodes together.
    all: Figures,
    /// Each node.
    nodes: Vec<NodeFigures>,
    /// What waits and what is held.
    pressure: PressureBody,
}

/// What waits, what is held, and what is stored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PressureBody {
    /// Locks.
    locks: u64,
    /// Uploads under way.
    uploads: u64,
    /// Those that are continued request by request.
    resumable_uploads: u64,
    /// Bytes that uploads have reserved.
    reserved_bytes: u64,
    /// Packs.
    packs: u64,
    /// Packs being written.
    packs_open: u64,
    /// Bytes of closed packs.
    total_bytes: u64,
    /// Bytes of them that something refers to.
    live_bytes: u64,
    /// Bytes of all files, versions and trash, as quotas count them.
    used_bytes: u64,
    /// Removed nodes whose rows are to go (counted up to 100,000).
    garbage: u64,
    /// Names and tags that wait to be indexed (counted up to 100,000).
    words_waiting: u64,
}

impl From<holdfast_meta::Pressure> for PressureBody {
    fn from(it: holdfast_meta::Pressure) -> Self {
        Self {
            locks: it.locks,
            uploads: it.uploads,
            resumable_uploads: it.resumable,
            reserved_bytes: it.reserved_bytes,
            packs: it.packs,
            packs_open: it.packs_open,
            total_bytes: it.total_bytes,
            live_bytes: it.live_bytes,
            used_bytes: it.used_bytes,
            garbage: it.garbage,
            words_waiting: it.words,
        }
    }
}

/// How the drive does now. For administrators.
///
/// Every node counts what it does and says so every ten seconds, if there was anything.
#[utoipa::path(get, path = "/admin/monitor", tag = "administration", responses((status = 200, body = MonitorBody), Failures))]
pub(crate) async fn now(State(api): State<Api>, caller: Caller) -> Result<axum::Json<MonitorBody>, Failure> {
    caller.require_admin()?;
    let now_ms = SystemClock.now_ms();
    let mut all = Figures::default();
    let mut nodes = Vec::new();
    for Sample { node, at_ms, figures } in api.catalogue.samples().await? {
        let figures: Figures = if at_ms < now_ms - NOW_MS { Figures::default() } else { read(&figures)? };
        all.beside(&figures);
        nodes.push(NodeFigures { node, at_ms, figures });
    }
    let pressure = api.catalogue.pressure().await?.into();
    Ok(axum::Json(MonitorBody { now_ms, all, nodes, pressure }))
}

fn read(text: &str) -> Result<Figures, Error> {
    serde_json::from_str(text).map_err(|error| Error::damaged("what a node said cannot be read").with_source(error))
}

/// How far back.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// From then on; a day ago is the furthest, and what is meant if it is absent.
    from_ms: Option<i64>,
}

/// A minute of all nodes together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MinuteBody {
    /// When it began.
    at_ms: i64,
    /// What happened in it.
    figures: Figures,
}

/// Minutes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryFigures {
    /// When this was asked.
    now_ms: i64,
    /// The oldest first; one in which nothing happened is not among them.
    minutes: Vec<MinuteBody>,
}

/// How the drive did, minute by minute, for a day. For administrators.
#[utoipa::path(get, path = "/admin/monitor/history", tag = "administration", params(Since),
    responses((status = 200, body = HistoryFigures), Failures))]
pub(crate) async fn history(
    State(api): State<Api>,
    caller: Caller,
    Query(since): Query<Since>,
) -> Result<axum::Json<HistoryFigures>, Failure> {
    caller.require_admin()?;
    let now_ms = SystemClock.now_ms();
    let from_ms = since.from_ms.unwrap_or(i64::MIN).max(now_ms - DAY_MS);
    let mut minutes: BTreeMap<i64, Figures> = BTreeMap::new();
    for sample in api.catalogue.sample_minutes(from_ms, MINUTES_MAX).await? {
        minutes.entry(sample.at_ms).or_default().beside(&read(&sample.figures)?);
    }
    let minutes = minutes.into_iter().map(|(at_ms, figures)| MinuteBody { at_ms, figures: figures.bounded() });
    Ok(axum::Json(HistoryFigures { now_ms, minutes: minutes.collect() }))
}
