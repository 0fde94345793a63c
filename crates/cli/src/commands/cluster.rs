//! `holdfast cluster`: the nodes that serve a drive.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::{show, table};
use clap::{Args, Subcommand};
use holdfast_base::Result;
use holdfast_meta::Cluster;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A node says every 5 s that it is there; one this long silent is in trouble.
const SILENT: Duration = Duration::from_secs(15);

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show nodes, who does the jobs, and whether database and store answer. Exit code 69 if something is wrong.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    data: DataArg,
}

/// What `status` tells.
#[derive(Debug, Serialize)]
struct Status {
    catalogue: Answer,
    store: Answer,
    nodes: Vec<NodeStatus>,
    leases: Vec<LeaseStatus>,
    /// Packs that are being written.
    packs_open: u64,
    /// Milliseconds by which the database's clock is ahead of this machine's; negative if it is behind.
    clock_ahead_ms: i64,
}

/// How a database or store answered.
#[derive(Debug, Serialize)]
struct Answer {
    kind: &'static str,
    /// Of a write that is on disk (the database) or a look for what is not there (the store).
    milliseconds: f64,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    name: String,
    id: i64,
    version: String,
    addresses: Vec<String>,
    up_s: i64,
    seen_ms_ago: i64,
    ok: bool,
}

#[derive(Debug, Serialize)]
struct LeaseStatus {
    job: String,
    /// Name of the node; none while nobody holds it.
    holder: Option<String>,
    fence: u64,
    expires_in_ms: i64,
}

/// Runs it.
pub(crate) async fn run(command: ClusterCommand, json: bool) -> anyhow::Result<ExitCode> {
    let ClusterCommand::Status(args) = command;
    let local = Local::open(&args.data).await?;
    let status = status(&local).await?;
    local.close().await?;
    show(json, &status, words)?;
    let fine =
        status.catalogue.error.is_none() && status.store.error.is_none() && status.nodes.iter().all(|node| node.ok);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(holdfast_base::ErrorKind::Unavailable.exit_code()) })
}

async fn status(local: &Local) -> Result<Status> {
    let is_shared = local.catalogue.is_shared();
    let catalogue = answer(if is_shared { "postgres" } else { "sqlite" }, local.catalogue.ping()).await;
    let store = match local.config.store.open(&local.directory).await {
        Ok((_, store)) => {
            let nothing = holdfast_base::PackName([0; 16]);
            answer(store.kind(), async { store.len(nothing).await.map(drop) }).await
        }
        Err(error) => Answer { kind: "store", milliseconds: 0.0, error: Some(error.to_string()) },
    };
    let cluster = local.catalogue.cluster().await?;
    let now_ms = holdfast_base::Clock::now_ms(&holdfast_base::SystemClock);
    Ok(Status {
        catalogue,
        store,
        nodes: nodes(&cluster, is_shared),
        leases: leases(&cluster),
        packs_open: cluster.packs_open,
        clock_ahead_ms: cluster.now_ms - now_ms,
    })
}

async fn answer(kind: &'static str, probe: impl Future<Output = Result<()>>) -> Answer {
    let started = Instant::now();
    let error = probe.await.err().map(|error| error.to_string());
    Answer { kind, milliseconds: started.elapsed().as_secs_f64() * 1e3, error }
}

fn nodes(cluster: &Cluster, is_shared: bool) -> Vec<NodeStatus> {
    let silent = i64::try_from(SILENT.as_millis()).unwrap_or(i64::MAX);
    let node = |node: &holdfast_meta::Instance| {
        let seen_ms_ago = cluster.now_ms - node.seen_ms;
        NodeStatus {
            name: node.name.clone(),
            id: node.id.0,
            version: node.version.clone(),
            addresses: node.addresses.clone(),
            up_s: (cluster.now_ms - node.started_ms) / 1_000,
            seen_ms_ago,
            // The only node there can be does not say that it is there.
            ok: !is_shared || seen_ms_ago < silent,
        }
    };
    cluster.instances.iter().map(node).collect()
}

fn leases(cluster: &Cluster) -> Vec<LeaseStatus> {
    let lease = |lease: &holdfast_meta::Lease| {
        let holder = cluster.instances.iter().find(|node| node.id == lease.holder && lease.expires_ms > cluster.now_ms);
        LeaseStatus {
            job: lease.name.clone(),
            holder: holder.map(|node| node.name.clone()),
            fence: lease.fence,
            expires_in_ms: (lease.expires_ms - cluster.now_ms).max(0),
        }
    };
    cluster.leases.iter().map(lease).collect()
}

/// The status for people.
fn words(status: &Status) -> String {
    let engine = |answer: &Answer| match &answer.error {
        None => format!("{}, answered in {:.1} ms", answer.kind, answer.milliseconds),
        Some(error) => format!("{}, DOES NOT ANSWER: {error}", answer.kind),
    };
    let mut text = format!("catalogue  {}\nstore      {}\n\n", engine(&status.catalogue), engine(&status.store));
    let rows: Vec<_> = status
        .nodes
        .iter()
        .map(|node| {
            let state = if node.ok { "up" } else { "SILENT" };
            let seen = format!("{:.1} s ago", node.seen_ms_ago as f64 / 1e3);
            let addresses = node.addresses.join(" ");
            vec![node.name.clone(), state.into(), node.version.clone(), format!("{} s", node.up_s), seen, addresses]
        })
        .collect();
    if rows.is_empty() {
        text += "No node serves this drive.\n";
    } else {
        text += &table(&["NODE", "STATE", "VERSION", "UP", "SEEN", "ADDRESSES"], &rows);
    }
    let rows: Vec<_> = status
        .leases
        .iter()
        .map(|lease| {
            let holder = lease.holder.clone().unwrap_or_else(|| "nobody".into());
            vec![lease.job.clone(), holder, lease.fence.to_string(), format!("{} s", lease.expires_in_ms / 1_000)]
        })
        .collect();
    if !rows.is_empty() {
        text.push('\n');
        text += &table(&["JOB", "DONE BY", "FENCE", "FOR"], &rows);
    }
    text
}
