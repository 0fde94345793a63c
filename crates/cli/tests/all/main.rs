//! All tests of this crate from outside, in one program: linking is most of what a test program costs.

mod administration;
mod api;
mod bench;
mod bench_run;
mod bench_wan;
mod commands;
mod common;
mod documents;
mod factors;
mod federation;
mod files;
mod hostile;
mod licences;
mod programs;
mod searches;
mod serve;
mod sessions;
mod shares;
mod sites;
mod thumbnails;
mod tls;
mod uploads;
