//! Transfers that the drive's servers run by schedule. What they are is in files of the operator; here they are seen, started and stopped.

use super::jobs_bodies::{
    JobPreviewBody, JobRunBody, JobRunsBody, OrderBody, StartedBody, TransferJobBody, TransferJobsBody, last_of,
};
use crate::Api;
use crate::extract::{Caller, Json, Path, Query};
use crate::problem::Failure;
use crate::routes::Failures;
use axum::extract::State;
use holdfast_base::Error;
use holdfast_jobs::desk::Desk;
use holdfast_meta::audit::amend;
use holdfast_meta::{JOBS_LEASE, WhichJobRuns};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

/// Runs of a page, unless another number is asked for, and the most.
const RUNS: usize = 50;
const RUNS_MAX: usize = 200;

fn desk(api: &Api) -> Result<&Desk, Failure> {
    let none =
        || Error::not_found("this server is told of no jobs: name files of them in its configuration, as jobs.files");
    api.desk.as_ref().ok_or_else(|| Failure(none()))
}

/// The node that runs the jobs now.
async fn runner(api: &Api) -> Result<Option<String>, Failure> {
    let cluster = api.catalogue.cluster().await?;
    if !api.catalogue.is_shared() {
        return Ok(cluster.instances.into_iter().next().map(|node| node.name));
    }
    let lease = cluster.leases.iter().find(|lease| lease.name == JOBS_LEASE && lease.expires_ms > cluster.now_ms);
    let holder = lease.and_then(|lease| cluster.instances.into_iter().find(|node| node.id == lease.holder));
    Ok(holder.map(|node| node.name))
}

/// Jobs, what they do, and when they are due. For administrators.
///
/// Without jobs in the configuration of the node that answers, `configured` is false.
#[utoipa::path(get, path = "/admin/jobs", tag = "administration", responses((status = 200, body = TransferJobsBody), Failures))]
pub(crate) async fn list(State(api): State<Api>, caller: Caller) -> Result<axum::Json<TransferJobsBody>, Failure> {
    caller.require_admin()?;
    let now = holdfast_jobs::now();
    let Some(desk) = &api.desk else { return Ok(axum::Json(TransferJobsBody::none(now))) };
    let (set, runner) = (desk.set(), runner(&api).await?);
    // What is under way tells more than what waits behind it.
    let mut last = desk.runs(WhichJobRuns::Unfinished).await?;
    last.extend(desk.runs(WhichJobRuns::Last).await?);
    let ended = desk.runs(WhichJobRuns::LastEnded).await?;
    let jobs = set.jobs.values().map(|job| TransferJobBody::of(job, last_of(&last, job), last_of(&ended, job), now));
    Ok(axum::Json(TransferJobsBody { configured: true, now_ms: now.as_millisecond(), runner, jobs: jobs.collect() }))
}

/// A job. For administrators.
#[utoipa::path(get, path = "/admin/jobs/{job}", tag = "administration", params(("job" = String, Path)),
    responses((status = 200, body = TransferJobBody), Failures))]
pub(crate) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<axum::Json<TransferJobBody>, Failure> {
    caller.require_admin()?;
    let desk = desk(&api)?;
    let set = desk.set();
    let job = set.job(&name)?;
    // Runs that wait or are under way are few, and the latest.
    let runs = desk.runs(WhichJobRuns::Of { job: Some(name.clone()), before: None, limit: RUNS }).await?;
    let open = runs.iter().find(|run| run.began_ms.is_some() && run.ended_ms.is_none());
    let ended = runs.iter().find(|run| run.ended_ms.is_some());
    Ok(axum::Json(TransferJobBody::of(job, open.or(runs.first()), ended, holdfast_jobs::now())))
}

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Go on where the page before ended: its `next`.
    before: Option<i64>,
    /// Runs at most; 200 is the most.
    limit: Option<usize>,
}

/// What runs of a job did, the latest first. For administrators.
///
/// A thousand runs of each job are kept.
#[utoipa::path(get, path = "/admin/jobs/{job}/runs", tag = "administration", params(("job" = String, Path), Page),
    responses((status = 200, body = JobRunsBody), Failures))]
pub(crate) async fn history(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<JobRunsBody>, Failure> {
    caller.require_admin()?;
    let desk = desk(&api)?;
    desk.set().job(&name)?;
    let limit = page.limit.unwrap_or(RUNS).clamp(1, RUNS_MAX);
    let mut runs = desk.runs(WhichJobRuns::Of { job: Some(name), before: page.before, limit: limit + 1 }).await?;
    let more = runs.len() > limit;
    runs.truncate(limit);
    let next = runs.last().filter(|_| more).map(|last| last.id);
    Ok(axum::Json(JobRunsBody { runs: runs.into_iter().map(Into::into).collect(), next }))
}

/// A run, with how far it is. For administrators.
///
/// What it did so far is written down every two seconds by the node that runs it.
#[utoipa::path(get, path = "/admin/jobs/{job}/runs/{run}", tag = "administration",
    params(("job" = String, Path), ("run" = i64, Path)), responses((status = 200, body = JobRunBody), Failures))]
pub(crate) async fn run(
    State(api): State<Api>,
    caller: Caller,
    Path((name, id)): Path<(String, i64)>,
) -> Result<axum::Json<JobRunBody>, Failure> {
    caller.require_admin()?;
    Ok(axum::Json(desk(&api)?.run(&name, id).await?.into()))
}

/// Start a job now, whatever its schedule and its hours are. For administrators.
///
/// It begins a second later on the node that runs the jobs, or when what is under way of it has ended. Sixteen runs of a job can wait.
#[utoipa::path(post, path = "/admin/jobs/{job}/runs", tag = "administration", params(("job" = String, Path)), request_body = OrderBody,
    responses((status = 202, body = StartedBody, description = "asked for"), Failures))]
pub(crate) async fn start(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(order): Json<OrderBody>,
) -> Result<(StatusCode, axum::Json<StartedBody>), Failure> {
    let by = &caller.require_admin()?.name;
    let desk = desk(&api)?;
    let set = desk.set();
    let run = desk.start(set.job(&name)?, &order.order()?, by).await?;
    amend(|note| note.detail = format!("run {run}"));
    Ok((StatusCode::ACCEPTED, axum::Json(StartedBody { run })))
}

/// Stop a run: one that waits does not begin, one that is under way ends within seconds and does not go on. For administrators.
#[utoipa::path(post, path = "/admin/jobs/{job}/runs/{run}/stop", tag = "administration",
    params(("job" = String, Path), ("run" = i64, Path)), responses((status = 202, description = "asked for"), Failures))]
pub(crate) async fn stop(
    State(api): State<Api>,
    caller: Caller,
    Path((name, id)): Path<(String, i64)>,
) -> Result<StatusCode, Failure> {
    caller.require_admin()?;
    desk(&api)?.stop(&name, id).await?;
    Ok(StatusCode::ACCEPTED)
}

/// What a job would do now, and when it is due. For administrators.
///
/// The node that answers looks at both sides and changes nothing; after 25 seconds, or a thousand acts, it is enough, and `more` is true.
#[utoipa::path(post, path = "/admin/jobs/{job}/preview", tag = "administration", params(("job" = String, Path)), request_body = OrderBody,
    responses((status = 200, body = JobPreviewBody), Failures))]
pub(crate) async fn preview(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(order): Json<OrderBody>,
) -> Result<axum::Json<JobPreviewBody>, Failure> {
    caller.require_admin()?;
    let desk = desk(&api)?;
    let set = desk.set();
    Ok(axum::Json(Box::pin(desk.preview(&set, set.job(&name)?, order.order()?)).await?.into()))
}
