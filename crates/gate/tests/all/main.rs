//! Real programs in real sandboxes, before whose folders gates stand.

mod account;
mod calls;
mod escapes;
mod life;
mod operations;
mod own;
mod random;
mod support;
