//! Test tools. Nothing here ships; every crate may use it in its tests.
//!
//! | module | what it gives |
//! |---|---|
//! | [`alone`] | a test in a process and with mounts of its own |
//! | [`confined`] | the built program confining others |
//! | [`crashdisk`] | a mounted file system that forgets, tears and reorders what was not synced, and fails on request |
//! | [`datagrams`] | a relay of UDP that does harm |
//! | [`data`] | bytes, text, trees and names, made from seeds |
//! | [`http`] | a blocking client, also for requests no correct client sends |
//! | [`judges`] | judges of policies that are functions |
//! | [`model`] | a reference tree with the answers RFC 4918 allows, and random operations on it |
//! | [`pattern`] | patterns of policies, for oracles |
//! | [`postgres`] | a PostgreSQL server, started, crashed, asked |
//! | [`sandboxed`] | programs in sandboxes that say how calls end |
//! | [`scan`] | a search of a whole folder for bytes that must not be there |
//! | [`server`] | the built program, started, killed, asked |
//! | [`services`] | object stores of others, really running: SeaweedFS, OpenStack Swift; a proxy that does harm; a slow link |
//! | [`rng`] | the seeded generator behind everything that is random here |
#![allow(
    clippy::cast_possible_truncation,
    reason = "test tools for 64-bit machines only: usize and u64 convert without loss"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the test tools convert freely between usize and u64");

pub mod alone;
pub mod confined;
pub mod crashdisk;
pub mod data;
pub mod datagrams;
pub mod http;
pub mod judges;
pub mod model;
pub mod pattern;
pub mod postgres;
pub mod rng;
pub mod sandboxed;
pub mod scan;
pub mod server;
pub mod services;
