//! Nodes, upkeep, the store, and settings.

use super::monitor::PressureBody;
use crate::Api;
use crate::extract::Caller;
use crate::problem::Failure;
use crate::routes::Failures;
use axum::extract::State;
use holdfast_base::{Clock, SystemClock};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// A node says every 5 s that it is there; one this long silent is in trouble.
const SILENT_MS: i64 = 15_000;
const YEAR_MS: i64 = 366 * 86_400_000;

/// A node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeStateBody {
    /// Its name.
    name: String,
    /// Its release.
    version: String,
    /// Where it listens.
    addresses: Vec<String>,
    /// When it began, by the database's clock.
    started_ms: i64,
    /// When it last said that it is there.
    seen_ms: i64,
    /// Whether that is lately enough.
    ok: bool,
}

/// Work in the background that one node does at a time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBody {
    /// Its name.
    name: String,
    /// The node that does it; absent while none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// When this node last did something of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ms: Option<i64>,
    /// What that did, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Whether it failed.
    failed: bool,
}

/// Nodes and upkeep.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClusterBody {
    /// The database's clock.
    now_ms: i64,
    /// Whether several nodes may serve this drive.
    shared: bool,
    /// By name.
    nodes: Vec<NodeStateBody>,
    /// By name.
    jobs: Vec<JobBody>,
}

/// Nodes, and the work in the background that one of them does at a time. For administrators.
#[utoipa::path(get, path = "/admin/cluster", tag = "administration", responses((status = 200, body = ClusterBody), Failures))]
pub(crate) async fn cluster(State(api): State<Api>, caller: Caller) -> Result<axum::Json<ClusterBody>, Failure> {
    caller.require_admin()?;
    let (shared, cluster) = (api.catalogue.is_shared(), api.catalogue.cluster().await?);
    let holder = |id| cluster.instances.iter().find(|node| node.id == id).map(|node| node.name.clone());
    let mut jobs: Vec<JobBody> = cluster
        .leases
        .iter()
        .map(|lease| JobBody {
            name: lease.name.clone(),
            holder: holder(lease.holder).filter(|_| lease.expires_ms > cluster.now_ms),
            last_ms: None,
            last: None,
            failed: false,
        })
        .collect();
    if !jobs.iter().any(|job| job.name == "reclaim") {
        jobs.push(JobBody { name: "reclaim".into(), holder: None, last_ms: None, last: None, failed: false });
    }
    if let (Some(last), Some(job)) = (api.reclaims.last(), jobs.iter_mut().find(|job| job.name == "reclaim")) {
        job.last_ms = Some(last.at_ms);
        job.failed = last.outcome.is_err();
        job.last = Some(match last.outcome {
            Ok(it) => format!(
                "{} expired, {} rows freed, {} packs rewritten, {} packs deleted, {} bytes freed, {} bytes moved",
                it.expired, it.rows_freed, it.packs_rewritten, it.packs_deleted, it.bytes_freed, it.bytes_moved
            ),
            Err(error) => error,
        });
    }
    let nodes = cluster.instances.iter().map(|node| NodeStateBody {
        name: node.name.clone(),
        version: node.version.clone(),
        addresses: node.addresses.clone(),
        started_ms: node.started_ms,
        seen_ms: node.seen_ms,
        // The only node there can be does not say that it is there.
        ok: !shared || cluster.now_ms - node.seen_ms < SILENT_MS,
    });
    Ok(axum::Json(ClusterBody { now_ms: cluster.now_ms, shared, nodes: nodes.collect(), jobs }))
}

/// What was stored at an hour.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CapacityBody {
    /// When.
    at_ms: i64,
    /// Packs.
    packs: u64,
    /// Bytes of closed packs.
    total_bytes: u64,
    /// Bytes of them that something refers to.
    live_bytes: u64,
    /// Bytes of all files, versions and trash, as quotas count them.
    used_bytes: u64,
    /// Bytes free where packs are kept, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
}

/// The store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreBody {
    /// `fs`, `s3` or `swift`.
    kind: String,
    /// Bytes where packs are kept, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Bytes of them that are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// What is in it.
    now: PressureBody,
    /// What was, by hour, for a year.
    hours: Vec<CapacityBody>,
}

/// The store, its packs, and how they grew. For administrators.
#[utoipa::path(get, path = "/admin/store", tag = "administration", responses((status = 200, body = StoreBody), Failures))]
pub(crate) async fn store(State(api): State<Api>, caller: Caller) -> Result<axum::Json<StoreBody>, Failure> {
    caller.require_admin()?;
    let room = api.store.room().await?;
    let now = api.catalogue.pressure().await?.into();
    let hours = api.catalogue.capacities(SystemClock.now_ms() - YEAR_MS).await?;
    let hours = hours.into_iter().map(|it| CapacityBody {
        at_ms: it.at_ms,
        packs: it.packs,
        total_bytes: it.total_bytes,
        live_bytes: it.live_bytes,
        used_bytes: it.used_bytes,
        free_bytes: it.free_bytes,
    });
    Ok(axum::Json(StoreBody {
        kind: api.store.kind().to_owned(),
        size_bytes: room.as_ref().map(|room| room.total_bytes),
        free_bytes: room.as_ref().map(|room| room.free_bytes),
        now,
        hours: hours.collect(),
    }))
}

/// Ask for a reclaim: what nobody refers to any more is given back to the disk. For administrators.
///
/// It begins at once and goes on after the answer; `GET /admin/cluster` tells what it did.
#[utoipa::path(post, path = "/admin/reclaim", tag = "administration", responses((status = 202, description = "asked for"), Failures))]
pub(crate) async fn reclaim(State(api): State<Api>, caller: Caller) -> Result<StatusCode, Failure> {
    caller.require_admin()?.require_full()?;
    api.reclaims.ask();
    Ok(StatusCode::ACCEPTED)
}

/// A setting of this node.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Setting {
    /// Its name in the configuration.
    pub key: String,
    /// Its value; what is secret is `***`.
    #[schema(value_type = Value)]
    pub value: serde_json::Value,
    /// Where it was set: `default`, a file, a variable of the environment, or the command line.
    pub origin: String,
}

/// The settings in force on the node that answers. For administrators.
#[utoipa::path(get, path = "/admin/settings", tag = "administration", responses((status = 200, body = Vec<Setting>), Failures))]
pub(crate) async fn settings(State(api): State<Api>, caller: Caller) -> Result<axum::Json<Vec<Setting>>, Failure> {
    caller.require_admin()?;
    Ok(axum::Json(api.settings.to_vec()))
}
