//! Real sandboxes whose calls a broker answers, on the real kernel, as root and as an ordinary account.

#![allow(clippy::format_push_string)]

mod account;
mod calls;
mod handed;
mod life;
mod own;
mod paths;
mod programs;
mod races;
mod random;
mod streams;
mod support;
