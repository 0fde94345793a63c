//! The WebDAV face: HTTP requests below `/dav/` become calls of a [`Drive`](holdfast_drive::Drive).
//!
//! [`DavFace::handle`] takes a signed-in session and a request, and answers a response; sockets, TLS, sign-in and metrics
//! belong to the server. `/dav/` lists the session's spaces and cannot be changed; `/dav/SPACE/…` is a space, and below
//! `/dav/Saved searches/` are the account's saved searches (`smart`). What is implemented is RFC 4918 (classes 1, 2 and 3) with the quota properties of RFC 4331, and the conditional requests,
//! ranges and partial PUT of RFC 9110; docs/SEMANTICS.md says what a client may rely on.
//!
//! How it works: a request is parsed into plain values ([`parse`], no I/O, nothing in there panics on any input), its
//! conditions are evaluated against one walk of the tree (`guard`), and one method of the drive does the rest in one
//! transaction, with the same conditions tested again inside it. Whatever can grow (bodies, listings, multistatus answers)
//! is streamed in bounded pieces; every bound is in [`limits`].

mod call;
mod face;
mod fault;
mod guard;
mod href;
pub mod limits;
mod methods;
mod multistatus;
pub mod parse;
mod props;
mod smart;
mod xml;

pub use face::{DavFace, DavOptions};
pub use holdfast_http::AnswerBody as DavBody;
