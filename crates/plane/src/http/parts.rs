//! Messages as units.

use super::{ExchangeError, PART_BYTES};
use crate::quic::{Arrived, Plane};
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use std::pin::pin;

const HEADER_BYTES: usize = 9;
const LAST: u8 = 1;
const BROKEN: u8 = 2;

/// A part that came.
pub(super) struct Part {
    pub(super) exchange: u32,
    pub(super) part: u32,
    pub(super) last: bool,
    pub(super) broken: bool,
    pub(super) content: Bytes,
    /// Counts as on its way until this is dropped.
    pub(super) _unit: Arrived,
}

impl Part {
    pub(super) fn of(unit: Arrived) -> Result<Self, ExchangeError> {
        let (head, _) = unit.bytes.split_first_chunk::<HEADER_BYTES>().ok_or(ExchangeError::Nonsense("a part without a header"))?;
        let [a, b, c, d, e, f, g, h, flags] = *head;
        let (exchange, part) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let (last, broken, content) = (flags & LAST != 0, flags & BROKEN != 0, unit.bytes.slice(HEADER_BYTES..));
        Ok(Self { exchange, part, last, broken, content, _unit: unit })
    }
}

/// Sends a message, whose content may come for as long as it likes, unless that is given up; how many parts it had, if all were sent.
pub(super) async fn send<B>(plane: &Plane, exchange: u32, head: &[u8], body: B, give_up: &mut GiveUp) -> Result<u32, ExchangeError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display + Send,
{
    let mut body = pin!(body);
    let (mut buffer, mut part) = (BytesMut::from(head), 0);
    loop {
        let frame = tokio::select! {
            biased;
            Ok(()) = &mut *give_up, if !give_up.is_terminated() => Some(Err("it was given up".to_owned())),
            frame = body.frame() => frame.map(|frame| frame.map_err(|error| error.to_string())),
        };
        let ended = match frame {
            None => true,
            Some(Err(error)) => {
                broken(plane, exchange, part).await;
                return Err(ExchangeError::Content(error));
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    buffer.extend_from_slice(&data);
                }
                body.is_end_stream()
            }
        };
        while buffer.len() > PART_BYTES {
            let rest = buffer.split_off(PART_BYTES);
            plane.send(unit(exchange, part, 0, &buffer)).await?;
            (buffer, part) = (rest, part + 1);
        }
        if ended {
            plane.send(unit(exchange, part, LAST, &buffer)).await?;
            return Ok(part + 1);
        }
    }
}

/// Told when nobody wants the message any more; dropped when it is to be sent whole.
pub(super) type GiveUp = tokio::sync::oneshot::Receiver<()>;

/// Says that no more comes after so many parts, or that nothing more is wanted. Parts may arrive after this, so it tells how many there are.
pub(super) async fn broken(plane: &Plane, exchange: u32, parts: u32) {
    // If that does not arrive, the connection is over, which says the same.
    let _ = plane.send(unit(exchange, parts, BROKEN, &[])).await;
}

fn unit(exchange: u32, part: u32, flags: u8, content: &[u8]) -> Bytes {
    let mut unit = BytesMut::with_capacity(HEADER_BYTES + content.len());
    unit.put_u32(exchange);
    unit.put_u32(part);
    unit.put_u8(flags);
    unit.put_slice(content);
    unit.freeze()
}
