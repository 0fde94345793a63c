//! Real sandboxes whose calls a broker answers, on the real kernel, as root and as an ordinary account.

mod account;
mod calls;
mod life;
mod paths;
mod programs;
mod races;
mod streams;
mod support;
