//! The end that answers.

use super::body::{Inbox, Incoming};
use super::parts::{self, Part};
use super::{EXCHANGES_MAX, ExchangeError, head};
use crate::quic::{Closed, Plane};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

/// A request and its answer. Kept until the one came and the other went.
struct Exchange {
    inbox: Inbox,
    /// Until the head came.
    incoming: Option<Incoming>,
    handler: Option<AbortHandle>,
    /// Parts that came, and how many there are if it was broken off.
    parts: u32,
    broken_at: Option<u32>,
    received: bool,
    answered: bool,
}

type Exchanges = HashMap<u32, Exchange>;

/// Answers requests until the connection is over.
pub async fn serve<H, F, B>(plane: Plane, handle: H)
where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display + Send,
{
    let plane = Arc::new(plane);
    let mut exchanges: HashMap<u32, Exchange> = HashMap::new();
    let mut handlers = JoinSet::new();
    let (answered, mut were_answered) = mpsc::unbounded_channel();
    loop {
        let unit = tokio::select! {
            unit = plane.receive() => unit,
            Some(number) = were_answered.recv() => {
                if let Some(exchange) = exchanges.get_mut(&number) {
                    exchange.answered = true;
                }
                settle(&mut exchanges, number);
                continue;
            }
            Some(_) = handlers.join_next() => continue,
        };
        let Some(unit) = unit else { break };
        let begun = match Part::of(unit).and_then(|part| take(&mut exchanges, part)) {
            Ok(begun) => begun,
            Err(error) => {
                plane.close(&error.to_string());
                break;
            }
        };
        let Some((number, request)) = begun else { continue };
        let (answer, plane, answered) = (handle(request), plane.clone(), answered.clone());
        let handler = handlers.spawn(async move {
            let answer = answer.await;
            let head = head::write_response(&answer);
            // It is aborted when it is not wanted any more.
            let (_wanted, mut give_up) = oneshot::channel();
            if let Err(error) = parts::send(&plane, number, &head, answer.into_body(), &mut give_up).await {
                tracing::debug!(%error, "an answer was not sent whole");
            }
            // Nobody hears it when the connection is over.
            let _ = answered.send(number);
        });
        if let Some(exchange) = exchanges.get_mut(&number) {
            exchange.handler = Some(handler);
        }
    }
    for exchange in exchanges.values() {
        exchange.inbox.fail(ExchangeError::Closed(Closed("it ended".into())));
    }
    handlers.shutdown().await;
}

/// Puts a part where it belongs; the request that begins with it, if one does.
fn take(exchanges: &mut Exchanges, mut part: Part) -> Result<Option<(u32, Request<Incoming>)>, ExchangeError> {
    let number = part.exchange;
    if exchanges.len() >= EXCHANGES_MAX && !exchanges.contains_key(&number) {
        return Err(ExchangeError::Nonsense("more requests at a time than there may be"));
    }
    let exchange = exchanges.entry(number).or_insert_with(|| {
        let (inbox, incoming) = Inbox::new();
        Exchange { inbox, incoming: Some(incoming), handler: None, parts: 0, broken_at: None, received: false, answered: false }
    });
    let mut begun = None;
    if part.broken {
        // Nobody waits for the answer.
        (exchange.answered, exchange.broken_at) = (true, Some(part.part));
        if let Some(handler) = exchange.handler.take() {
            handler.abort();
        }
        exchange.inbox.put(part);
    } else {
        exchange.parts += 1;
        if part.part == 0 && !exchange.answered {
            let (request, content) = head::read_request(&part.content)?;
            part.content = content;
            begun = exchange.incoming.take().map(|incoming| (number, request.map(|()| incoming)));
        }
        exchange.received |= exchange.inbox.put(part);
    }
    exchange.received |= exchange.broken_at.is_some_and(|parts| exchange.parts >= parts);
    settle(exchanges, number);
    Ok(begun)
}

fn settle(exchanges: &mut Exchanges, number: u32) {
    if exchanges.get(&number).is_some_and(|exchange| exchange.received && exchange.answered) {
        exchanges.remove(&number);
    }
}
