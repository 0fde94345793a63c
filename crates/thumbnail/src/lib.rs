//! Thumbnails: small pictures of pictures, made where a hostile picture can do no harm.
//!
//! A decoder of images is where uploaded bytes meet a large parser, so none runs in the server. [`Thumbnails`] starts the same program again as
//! a worker ([`work`]), which gives up everything but two pipes before it reads the first byte ([`confine`]); it gets a picture and
//! answers a JPEG.
//!
//! ```text
//! pool      what is remembered, what is begun
//!   turns     who is next, who waits
//!   process   one worker from the server's side: begin, feed, deadline, kill
//!     wire      what goes over the pipes
//!   worker    the same from its own side
//!     confine   what it gives up
//!     render    decode, turn, shrink, encode
//! cache     pictures in memory, by content
//! ```
//!
//! A worker sees pictures of one space only, and not many: what might take it over finds nothing of other spaces in its memory, and gets no chance to put it
//! into somebody's picture.
//!
//! Limits: sources have [`SOURCE_BYTES_MAX`] bytes and [`PIXELS_MAX`] pixels, a picture is ready within [`TIME_MAX`], and of those who ask, [`WAITING_MAX`]
//! wait.

mod cache;
mod confine;
mod pool;
mod process;
mod render;
mod turns;
mod wire;
mod worker;

pub use confine::{Attempt, prove};
pub use pool::{Answer, Key, ThumbnailOptions, Thumbnails};
pub use turns::Asker;
pub use worker::work;

use std::time::Duration;

/// How the program is called as a worker.
pub const WORKER_COMMAND: &str = "thumbnail-worker";

/// What the answers are.
pub const MEDIA_TYPE: &str = "image/jpeg";

/// Longest edges there are, in pixels: a tile of a grid on a dense screen, and a first look at a picture as a whole.
pub const EDGES: [u32; 2] = [256, 1024];

/// Types that are tried, as file names tell them.
pub const SOURCE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Largest file that is tried: photographs of 50 megapixels have less.
pub const SOURCE_BYTES_MAX: u64 = 32 << 20;

/// Pixels of a picture at most: 64 megapixels, 192 MiB decoded.
pub const PIXELS_MAX: u64 = 64 << 20;

/// Edge of a picture at most, which is what JPEG has.
const SOURCE_EDGE_MAX: u32 = 65_535;

/// Memory of a worker for its data: the file, the decoded picture, and for a progressive JPEG of 30 megapixels its coefficients.
const DATA_BYTES_MAX: u64 = 512 << 20;

/// Addresses of a worker: its data, and the program itself with room to spare.
const ADDRESS_BYTES_MAX: u64 = 2 << 30;

/// Bytes of one answer at most: noise of 1024 by 1024 pixels has less.
const PICTURE_BYTES_MAX: usize = 2 << 20;

/// Time for one picture, from its last byte to the answer. A photograph takes a tenth of a second.
pub const TIME_MAX: Duration = Duration::from_secs(10);

/// Time to bring the file to the worker: a store that is far away may be slow.
const FEED_TIME_MAX: Duration = Duration::from_secs(30);

/// Time until a new worker says that it is ready; it is some milliseconds, or a second on a machine that is very busy.
const START_TIME_MAX: Duration = Duration::from_secs(10);

/// Pictures after which a worker is replaced.
const PICTURES_MAX: u32 = 32;

/// Processor time of a worker at most, in seconds: that of all its pictures.
const CPU_SECONDS_MAX: u64 = TIME_MAX.as_secs() * PICTURES_MAX as u64;

/// Requests that wait for a worker, of all who ask together; more are told to come back. A page asks for a few at a time.
pub const WAITING_MAX: usize = 64;

/// How long one of them waits.
const WAIT_TIME_MAX: Duration = Duration::from_secs(10);

/// A worker that had nothing to do for this long is ended, and a picture nobody asked for for this long is forgotten at the next sweep.
const IDLE_TIME_MAX: Duration = Duration::from_mins(15);
