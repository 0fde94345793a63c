//! The body of a request as the drive takes it.

use crate::Pieces;
use bytes::Bytes;
use holdfast_base::Error;
use holdfast_base::limits::BLOCK_BYTES;
use http_body::Body;
use http_body_util::BodyExt;

/// What a body's producer reports when it breaks off.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body as content: data only, no piece longer than a block.
pub fn incoming<B>(body: B) -> Pieces
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    Box::pin(futures_util::stream::try_unfold((body, Bytes::new()), |(mut body, mut held)| async move {
        while held.is_empty() {
            let Some(frame) = body.frame().await else { return Ok(None) };
            held = frame.map_err(|error| body_error(error.into()))?.into_data().unwrap_or_default();
        }
        let piece = held.split_to(held.len().min(BLOCK_BYTES));
        Ok(Some((piece, (body, held))))
    }))
}

/// A body that broke off is the client's doing, unless whoever made the body says otherwise in our own terms (a time-out).
pub fn body_error(error: BoxError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(error) = cause {
        if let Some(own) = error.downcast_ref::<Error>() {
            return Error::new(own.kind(), own.message());
        }
        cause = error.source();
    }
    Error::invalid("the request body broke off before its end").with_source(error)
}
