//! What every HTTP face needs and none should have its own of: ranges, entity tags, conditional requests, dates, types, and the
//! answer of a file (RFC 9110 sections 5.6.7, 8, 13 and 14).
//!
//! Plain values in, plain values out: no drive, no session, no socket. Every parser takes any text and answers an error or a
//! default rather than panic. Bounds are in [`limits`].

mod body;
mod conditions;
pub mod dates;
mod disposition;
mod etags;
mod file;
mod incoming;
pub mod limits;
mod mime;
mod multipart;
mod place;
mod ranges;
mod segments;

pub use body::{AnswerBody, Pieces};
pub use conditions::{Conditional, Facts, header_text, if_range_holds, read_conditions};
pub use disposition::attachment;
pub use etags::{EntityTag, TagList, tag_list};
pub use file::{File, FileAnswer, file};
pub use incoming::{BoxError, body_error, incoming};
pub use mime::{of_name as mime_of_name, safe_of_name};
pub use multipart::{Multipart, content_range};
pub use place::place;
pub use ranges::{RangeRequest, ranges};
pub use segments::push_segment;
