//! The end that asks.

use super::body::{Inbox, Incoming};
use super::parts::{self, Part};
use super::{EXCHANGES_MAX, ExchangeError, head};
use crate::Statistics;
use crate::quic::{Closed, Plane};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Asks over a plane. A handle: clones are the same connection, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plane: Arc<Plane>,
    asked: Arc<Mutex<Asked>>,
    listening: tokio::task::AbortHandle,
}

#[derive(Debug, Default)]
struct Asked {
    next: u32,
    open: HashMap<u32, Open>,
    /// The connection is over.
    closed: bool,
}

#[derive(Debug)]
struct Open {
    inbox: Inbox,
    begin: Option<(oneshot::Sender<Result<Response<Incoming>, ExchangeError>>, Incoming)>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.listening.abort();
        self.plane.close("done");
    }
}

impl Client {
    /// Over a plane that nobody else uses.
    pub fn new(plane: Plane) -> Self {
        let (plane, asked) = (Arc::new(plane), Arc::new(Mutex::new(Asked::default())));
        let listening = tokio::spawn(listen(plane.clone(), asked.clone())).abort_handle();
        Self(Arc::new(Inner { plane, asked, listening }))
    }

    /// Sends a request and waits for the head of its answer. If this is dropped before, the other end is told.
    ///
    /// # Errors
    /// When the connection is over, before or meanwhile: then the request may have been answered.
    pub async fn request<B>(&self, request: Request<B>) -> Result<Response<Incoming>, ExchangeError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display + Send,
    {
        let (begin, mut begun) = oneshot::channel();
        let number = self.open(begin)?;
        let head = head::write_request(&request);
        let plane = self.0.plane.clone();
        // An answer may come before all of the request went.
        let (give_up, mut given_up) = oneshot::channel();
        let (failed, content_failed) = oneshot::channel();
        tokio::spawn(async move {
            match parts::send(&plane, number, &head, request.into_body(), &mut given_up).await {
                Ok(parts) if !given_up.is_terminated() && given_up.await.is_ok() => parts::broken(&plane, number, parts).await,
                Ok(_) => {}
                // Nobody hears it if the answer came before.
                Err(error) => drop(failed.send(error)),
            }
        });
        let mut asking = Asking { client: self, number, give_up: Some(give_up) };
        let answer = tokio::select! {
            answer = &mut begun => answer,
            Ok(error) = content_failed => return Err(error),
        };
        asking.give_up = None;
        answer.map_err(|_| closed())?
    }

    /// What the connection has seen.
    pub fn statistics(&self) -> Statistics {
        self.0.plane.statistics()
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.0.asked.lock().closed
    }

    fn open(&self, begin: oneshot::Sender<Result<Response<Incoming>, ExchangeError>>) -> Result<u32, ExchangeError> {
        let mut asked = self.0.asked.lock();
        if asked.closed {
            return Err(closed());
        }
        if asked.open.len() >= EXCHANGES_MAX {
            return Err(ExchangeError::Nonsense("too many requests at a time"));
        }
        let number = asked.next;
        asked.next = asked.next.wrapping_add(1);
        let (inbox, incoming) = Inbox::new();
        asked.open.insert(number, Open { inbox, begin: Some((begin, incoming)) });
        Ok(number)
    }
}

/// A request nobody waits for any more is taken back.
struct Asking<'a> {
    client: &'a Client,
    number: u32,
    /// Until it is answered.
    give_up: Option<oneshot::Sender<()>>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(give_up) = self.give_up.take() {
            self.client.0.asked.lock().open.remove(&self.number);
            // It may have failed by itself.
            let _ = give_up.send(());
        }
    }
}

async fn listen(plane: Arc<Plane>, asked: Arc<Mutex<Asked>>) {
    while let Some(unit) = plane.receive().await {
        if let Err(error) = Part::of(unit).and_then(|part| take(&mut asked.lock(), part)) {
            plane.close(&error.to_string());
            break;
        }
    }
    let mut asked = asked.lock();
    asked.closed = true;
    for (_, open) in asked.open.drain() {
        open.inbox.fail(closed());
        if let Some((begin, _)) = open.begin {
            // Whoever asked may be gone.
            let _ = begin.send(Err(closed()));
        }
    }
}

fn take(asked: &mut Asked, mut part: Part) -> Result<(), ExchangeError> {
    let number = part.exchange;
    let Some(open) = asked.open.get_mut(&number) else { return Ok(()) };
    if part.broken
        && let Some((begin, _)) = open.begin.take()
    {
        let _ = begin.send(Err(ExchangeError::Broken));
    }
    if part.part == 0 {
        let (answer, content) = head::read_response(&part.content)?;
        part.content = content;
        if let Some((begin, incoming)) = open.begin.take() {
            let _ = begin.send(Ok(answer.map(|()| incoming)));
        }
    }
    if open.inbox.put(part) {
        asked.open.remove(&number);
    }
    Ok(())
}

fn closed() -> ExchangeError {
    ExchangeError::Closed(Closed("the connection ended".into()))
}
