//! A space over the network, by numbers: both ends of what a mount on another machine speaks.
//!
//! [`wire`] is what goes over the line. [`face`] answers it on the server, from the engine's [`Tree`](holdfast_drive::Tree). [`client`]
//! implements that same trait with it, so whoever speaks to a `Tree` does not know on which machine it is. docs/design/mount.md says why it is as
//! it is.
//!
//! **Nothing hangs.** Every operation of the client has a deadline and ends in `Timeout` after it, whatever server and network do. Until then it is
//! tried again on new connections; what may have been done already is recognised ([`client`]).
//!
//! **Nothing is believed that may be wrong.** The client answers names and attributes from memory only while the server's stream of changes says that
//! nothing changed. Content never changes under its number, so blocks are kept as long as there is room.
//!
//! **Limits.** A message [`wire::CALL_BYTES_MAX`] or [`wire::ANSWER_BYTES_MAX`], a listing [`wire::LIST_MAX`]; seats and open contents of the server
//! [`face`]; memory of the client [`client::Options`].

pub mod client;
pub mod face;
#[doc(hidden)]
pub mod fuzzed;
pub mod wire;
