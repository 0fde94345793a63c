//! Real sandboxes whose calls a broker answers, on the real kernel, as root and as an ordinary account.

#![allow(clippy::format_push_string)]

mod account;
mod calls;
mod life;
mod paths;
mod programs;
mod races;
mod random;
mod streams;
mod support;
