//! The server: listeners, TLS, sign-in at the door, metrics, and stopping in good order.
//!
//! ```text
//! listen      binds, accepts, counts connections, greets (TLS)
//!   conn      one connection: hyper, its timer, its bodies
//!     web     one request: who asks, which face answers, what every answer gets
//!       dav   api   site     (crates of their own, over the Drive trait)
//! ```
//!
//! Beside that path: [`data_dir`] (format and lock of the data directory), [`tls`] (certificates), [`stop`] (signals and drain),
//! [`metrics`](mod@metrics) and [`meter`] (counting), [`address_file`], [`telemetry`] (logs), [`config`] and [`limits`] (what an
//! operator can set). [`Server`] puts them together.
//!
//! Limits: one process serves a data directory; sockets are TCP only; what an operator cannot set is a named constant in
//! [`limits`].

pub mod address_file;
pub mod config;
pub mod conn;
pub mod data_dir;
pub mod engines;
pub mod federation;
pub mod functions;
pub mod jobs;
pub mod limits;
pub mod listen;
pub mod local;
pub mod meter;
pub mod metrics;
mod monitor;
pub mod peer;
mod planes;
pub mod server;
pub mod sites;
pub mod stop;
pub mod telemetry;
pub mod thumbnails;
pub mod tls;
mod web;

pub use config::ServerConfig;
pub use data_dir::DataDir;
pub use functions::ServedFunctions;
pub use holdfast_api::{Setting, figures};
pub use jobs::ServedJobs;
pub use local::LocalDrive;
pub use server::{MetricsListener, Server};
pub use sites::SitesConfig;
pub use stop::{Stopper, Wish};
