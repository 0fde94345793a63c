//! What is told of functions, and what they are given.

use bytes::{Buf, Bytes};
use futures_util::StreamExt;

use holdfast_function::{Limits, Listed, Record, State};
use holdfast_http::Pieces;
use serde::Serialize;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use utoipa::ToSchema;

/// Functions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FunctionsBody {
    /// Whether the node that answers calls functions.
    pub(super) configured: bool,
    /// By name.
    pub(super) functions: Vec<FunctionBody>,
}

/// A function.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FunctionBody {
    /// Its name.
    name: String,
    /// The version that is called.
    version: String,
    /// When that was deployed.
    deployed_ms: i64,
    /// Bounds of its calls; absent if its manifest cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<FunctionLimitsBody>,
    /// Accounts that may call it, besides administrators. For administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    invoke: Option<Vec<String>>,
    /// Instances on this node that are started ahead of their calls.
    ready: usize,
    /// Calls under way on this node.
    running: usize,
    /// Calls that wait on this node.
    waiting: usize,
    /// Why none is started ahead of its call any more, or why it cannot be called. For administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// Bounds of a function's calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FunctionLimitsBody {
    /// Seconds by the clock.
    seconds: u64,
    /// Bytes of input.
    input_bytes: u64,
    /// Bytes of output.
    output_bytes: u64,
    /// Calls at a time.
    concurrency: usize,
    /// Calls that wait.
    waiting: usize,
    /// Instances that are started ahead of their calls.
    warm: usize,
}

impl From<Limits> for FunctionLimitsBody {
    fn from(limits: Limits) -> Self {
        Self {
            seconds: limits.seconds,
            input_bytes: limits.input,
            output_bytes: limits.output,
            concurrency: limits.concurrency,
            waiting: limits.waiting,
            warm: limits.warm,
        }
    }
}

impl FunctionBody {
    pub(super) fn of(one: &Listed, state: State, admin: bool) -> Self {
        let manifest = one.manifest.as_ref();
        let invoke = manifest.map(|manifest| manifest.invoke.iter().cloned().collect()).ok();
        let trouble = state.trouble.or_else(|| manifest.err().map(ToString::to_string));
        Self {
            name: one.name.to_string(),
            version: one.version.to_string(),
            deployed_ms: one.version.made_ms(),
            limits: manifest.ok().map(|manifest| manifest.limits.into()),
            invoke: invoke.filter(|_| admin),
            ready: state.ready,
            running: state.running,
            waiting: state.waiting,
            trouble: trouble.filter(|_| admin),
        }
    }
}

/// Calls of a function.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallsBody {
    /// The latest first.
    pub(super) calls: Vec<CallBody>,
}

/// A call.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallBody {
    /// Its id.
    id: String,
    /// The version that was called.
    version: String,
    /// When it was asked for.
    at_ms: i64,
    /// The account that asked; absent if it was called from the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// Whether it was started for this call, rather than ahead of it.
    cold: bool,
    /// Microseconds until it had its turn.
    waited_us: u64,
    /// Microseconds from then until all of it had ended.
    ran_us: u64,
    /// Whether it ended with 0.
    ok: bool,
    /// How it ended, in words.
    end: String,
    /// Its exit code, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    /// Bytes of input it was given.
    input_bytes: u64,
    /// Bytes of its output.
    output_bytes: u64,
    /// What it wrote to standard error. For a single call.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    /// Whether more was written there than is kept.
    log_cut: bool,
    /// Its output in Base64, if it was kept. For a single call.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

impl CallBody {
    pub(super) fn of(record: Record, whole: bool) -> Self {
        Self {
            id: record.id,
            version: record.version,
            at_ms: record.at_ms,
            by: Some(record.by).filter(|by| !by.is_empty()),
            cold: record.cold,
            waited_us: record.waited_us,
            ran_us: record.ran_us,
            ok: record.ok,
            end: record.end,
            exit: record.exit,
            input_bytes: record.input_bytes,
            output_bytes: record.output_bytes,
            log: whole.then_some(record.log),
            log_cut: record.log_cut,
            output: record.output.filter(|_| whole),
        }
    }
}

/// A request's body, to be read.
pub(super) struct Input {
    pieces: Pieces,
    piece: Bytes,
}

impl Input {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, piece: Bytes::new() }
    }
}

impl AsyncRead for Input {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            match ready!(self.pieces.poll_next_unpin(context)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error.to_string()))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let bytes = self.piece.len().min(to.remaining());
        to.put_slice(&self.piece[..bytes]);
        self.piece.advance(bytes);
        Poll::Ready(Ok(()))
    }
}
