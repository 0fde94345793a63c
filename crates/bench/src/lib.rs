//! Measurements: every figure Holdfast states about itself is made by a command of this crate.
//!
//! `dav` measures WebDAV servers side by side, `load` any web pages, `create` any folders, mounted ones before all,
//! `wan` any tools that fetch files over bad networks, `confined` what confining a program costs it. What they are made of:
//!
//! - `frame`: interleaved runs, the same preparation for all, probes, and the collecting of figures and failures;
//! - `http`: an HTTP/1.1 client that costs little CPU, because the load generator usually shares the
//!   cores with the server it measures;
//! - `data`: test data made once (a key stream, and real text), stamped anew for each run;
//! - `course`: what happened when, in pieces of time;
//! - `process`: CPU seconds and peak memory of a server's process tree, and the warming of memory;
//! - `baseline`: what plain commands (`cp`, `gzip`, `zstd`, `openssl`) do with the same data;
//! - `machine`: what the figures were measured on;
//! - `paired`: what a second way costs beside a first, with intervals;
//! - `stats` and `report`: medians, spreads and ratios, as a table for terminals, as JSON and as an HTML page.
//!
//! Limits: HTTP/1.1 only, Basic authentication only, Linux only (it reads `/proc`).

mod baseline;
pub mod confined;
mod course;
pub mod create;
mod data;
pub mod dav;
mod disk;
mod duration;
mod frame;
mod http;
pub mod load;
mod machine;
mod paired;
mod process;
pub mod report;
mod shared;
mod size;
mod stats;
mod target;
pub mod wan;

pub use duration::parse_duration;
pub use report::Report;
pub use size::parse_size;
