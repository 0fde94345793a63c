//! The server's end: each call is one operation of the engine's [`Tree`](holdfast_drive::Tree).
//!
//! Whoever asks was signed in by the server in front, with every request anew; what they may do is the tree's business. A *seat* keeps
//! a session's tree and the contents it reads, so that a call costs no more than its operation. A seat nobody uses is given up after
//! [`SEAT_IDLE`], and with it the session's keys; there are [`SEATS_MAX`] at most, with [`CONTENTS_MAX`] contents each.

mod events;
mod lanes;
mod locking;
mod look;
mod operate;
mod sealed;
mod seat;

use crate::wire::{self, CALL_BYTES_MAX, Call};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use holdfast_auth::Session;
use holdfast_base::{ContentId, Error, ErrorKind, Result};
use holdfast_drive::ContentStream;
use holdfast_drive::engine::{Engine, MountName};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use lanes::Lanes;
use parking_lot::Mutex;
use seat::Seats;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Seats of one server at most: a thousand mounts, each with a token of its own.
pub const SEATS_MAX: usize = 1_024;
/// How long a seat nobody uses is kept.
pub const SEAT_IDLE: Duration = Duration::from_mins(1);
/// Contents of a seat that are open for reading: the files a mount reads at a time.
pub const CONTENTS_MAX: usize = 256;

/// A body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, Error>;

/// What a request did, for the log of who did what: an action, and on what. Answers to calls that change files have a `Vec` of them in their
/// extensions, since one may hand over many changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Did {
    /// As other faces call it.
    pub action: &'static str,
    /// Space, and the node as far as the call says it.
    pub object: String,
    /// Status of its refusal, where it was refused and the call as a whole was not.
    pub refused: Option<u16>,
}

/// Answers the protocol. A handle: clones are the same.
#[derive(Clone)]
pub struct WireFace(Arc<Inner>);

struct Inner {
    engine: Engine,
    seats: Mutex<Seats>,
    lanes: Lanes,
    stopping: watch::Sender<bool>,
}

impl WireFace {
    /// Over an engine.
    pub fn new(engine: Engine) -> Self {
        Self(Arc::new(Inner {
            engine,
            seats: Mutex::default(),
            lanes: Lanes::default(),
            stopping: watch::Sender::new(false),
        }))
    }

    /// Ends the streams of changes: the server is about to stop, and waits for running requests.
    pub fn end_events(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Answers a request of a signed-in account.
    pub async fn handle<B>(&self, who: Arc<Session>, request: Request<B>) -> Response<Answer>
    where
        B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
    {
        match self.route(who, request).await {
            Ok(answer) => answer,
            Err(error) => refusal(&error),
        }
    }

    async fn route<B>(&self, who: Arc<Session>, request: Request<B>) -> Result<Response<Answer>>
    where
        B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
    {
        if who.visit.is_some() {
            return Err(Error::forbidden("the visitor of a link cannot mount what it leads to"));
        }
        let space = space_of(request.uri().query())?.unwrap_or_else(|| who.name.clone());
        let headers = request.headers();
        let mount = MountName {
            voice: number(headers, wire::MOUNT)?,
            bonds: headers.contains_key(wire::BONDS),
            number: number(headers, wire::BELIEVER)?,
        };
        match (request.uri().path(), request.method()) {
            (wire::CALL, &Method::POST) => self.call(who, (&space, mount), request.into_body()).await,
            (wire::EVENTS, &Method::GET) => {
                let seat = self.seat(who, &space, mount).await?;
                let stream = events::stream(seat, mount.voice, self.0.stopping.subscribe()).await?;
                Ok(answer(StatusCode::OK, UnsyncBoxBody::new(StreamBody::new(stream))))
            }
            (wire::CALL | wire::EVENTS, method) => {
                let allow = if method == Method::POST { "GET" } else { "POST" };
                let mut refused = refusal(&Error::new(ErrorKind::WrongKind, "this address has another method"));
                refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
                Ok(refused)
            }
            _ => Err(Error::not_found(format!("there is nothing here; this server speaks {}", wire::PREFIX))),
        }
    }

    async fn call<B>(&self, who: Arc<Session>, (space, mount): (&str, MountName), body: B) -> Result<Response<Answer>>
    where
        B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
    {
        let (call, body) = read_call(body).await?;
        metrics::counter!("holdfast_wire_calls_total", "operation" => call.name()).increment(1);
        let seat = self.seat(who.clone(), space, mount).await?;
        let mut did: Vec<Did> = operate::did(&call, space).into_iter().collect();
        let has_blocks = matches!(call, Call::ApplyWith(..));
        let done = match call {
            Call::Record(content, index) => return Ok(self.record(&who, space, (content, index), 0).await),
            Call::RecordRest(content, index, bytes) => {
                return Ok(self.record(&who, space, (content, index), bytes).await);
            }
            Call::Look(path, contents) => look::look(&self.0.engine, &seat, &who, (&path, contents)).await,
            Call::Lane(upload, offset, part, is_first) => {
                let key = (who.account_uid, upload, part);
                if is_first {
                    let whole =
                        |body| sealed::operate(&self.0.engine, (&who, space), Call::Continue(upload, offset), body);
                    self.0.lanes.first(key, body, whole).await
                } else {
                    self.0.lanes.join(key, body).await
                }
            }
            call if locking::is_one(&call) => locking::operate(&seat, call, self.0.stopping.subscribe()).await,
            call if sealed::is_one(&call) => sealed::operate(&self.0.engine, (&who, space), call, body).await,
            Call::Keys() => self.0.engine.handed_keys(&who, space).await.map(operate::keys),
            Call::Apply(of, batch, durable) | Call::ApplyWith(of, batch, durable) => {
                let handed = operate::hand_over(&seat, of, (batch, has_blocks.then_some(body)), durable).await;
                handed.map(|(frame, changes)| {
                    did = changes;
                    frame
                })
            }
            call => operate::operate(&seat, call, body).await,
        };
        let mut answered = match done {
            Ok(frame) => answer(StatusCode::OK, whole(frame)),
            Err(error) => refusal(&error),
        };
        if !did.is_empty() {
            answered.extensions_mut().insert(did);
        }
        Ok(answered)
    }

    /// A block's record behind so many bytes of it.
    async fn record(
        &self,
        who: &Session,
        space: &str,
        (content, index): (ContentId, u64),
        bytes: u64,
    ) -> Response<Answer> {
        match self.0.engine.record(who, space, (content, index), bytes).await {
            Ok(record) => {
                let frames = record.content.map(|piece| piece.map(Frame::data));
                let mut answered = answer(StatusCode::OK, UnsyncBoxBody::new(StreamBody::new(frames)));
                answered.headers_mut().insert(CONTENT_LENGTH, record.bytes.into());
                answered
            }
            Err(error) => refusal(&error),
        }
    }

    async fn seat(&self, who: Arc<Session>, space: &str, mount: MountName) -> Result<Arc<seat::Seat>> {
        let known = self.0.seats.lock().find(&who, space, mount);
        let seat = if let Some(seat) = known {
            seat
        } else {
            let tree = self.0.engine.far_tree(who.clone(), space, mount).await?;
            self.0.seats.lock().take(who, (space, mount), tree)
        };
        seat.look().await?;
        Ok(seat)
    }
}

/// The space that a query names.
fn space_of(query: Option<&str>) -> Result<Option<String>> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    let value = query.strip_prefix("space=").filter(|value| !value.contains('&'));
    let value = value.ok_or_else(|| Error::invalid("the query is space=NAME and nothing else"))?;
    let name = percent_encoding::percent_decode_str(value).decode_utf8();
    let name = name.map_err(|_| Error::invalid("the space's name is not UTF-8"))?;
    Ok(Some(name.into_owned()))
}

/// A number by which a mount names itself; 0 if it does not.
fn number(headers: &HeaderMap, name: &str) -> Result<u64> {
    let Some(number) = headers.get(name) else { return Ok(0) };
    let number = number.to_str().ok().and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::invalid(format!("the header {name} is a number")))
}

/// Reads a call, and leaves what comes after it.
async fn read_call<B>(body: B) -> Result<(Call, ContentStream)>
where
    B: Body<Data = Bytes, Error = Error> + Send + Unpin + 'static,
{
    let mut frames = BodyStream::new(body);
    let mut buffer = BytesMut::new();
    loop {
        if let Some(found) = wire::split(&mut buffer, CALL_BYTES_MAX)? {
            let call = wire::message(&found)?;
            let rest = frames.filter_map(|frame| async {
                match frame {
                    Ok(frame) => frame.into_data().ok().map(Ok),
                    Err(error) => Some(Err(error)),
                }
            });
            let first = futures_util::stream::iter((!buffer.is_empty()).then(|| Ok(buffer.freeze())));
            return Ok((call, first.chain(rest).boxed()));
        }
        match frames.next().await {
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
            None => return Err(Error::invalid("the call is not as long as it says")),
        }
    }
}

fn whole(bytes: Bytes) -> Answer {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn answer(status: StatusCode, body: Answer) -> Response<Answer> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(wire::MEDIA_TYPE));
    answer
}

fn refusal(error: &Error) -> Response<Answer> {
    let status = StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() {
        tracing::warn!(?error, "an operation of a mount failed");
    }
    let mut answer = answer(status, whole(wire::encode_fault(error)));
    if let ErrorKind::TooManyRequests { retry_after_s } = error.kind() {
        answer.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_space_and_nothing_else() {
        let of = |query| space_of(query).expect("reads");
        assert_eq!([of(None), of(Some("")), of(Some("space=a%20b"))], [None, None, Some("a b".into())]);
        for bad in ["x=1", "space=a&space=b", "space=%ff"] {
            assert!(space_of(Some(bad)).is_err(), "{bad}");
        }
    }
}
