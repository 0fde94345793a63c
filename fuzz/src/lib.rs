//! What the fuzz targets do. `fuzz_targets/` gives these functions bytes that libFuzzer makes up; the tests
//! `corpus.rs` of the crates seal, blob, dav, api, remote, mount, plane, jobs, policy, transfer and bench include the same modules and give them the committed
//! corpora, with the stable compiler and nothing installed.
//!
//! A target returns for every input there is. It panics if the code under test panics, or breaks a promise that the target
//! checks: what was read back differs, a limit is passed, something forged is taken for genuine.

pub mod jobs;
pub mod journals;
pub mod measured;
pub mod mounts;
pub mod network;
pub mod pages;
pub mod planes;
pub mod policies;
pub mod sites;
pub mod ssh;
pub mod stored;
pub mod stores;
