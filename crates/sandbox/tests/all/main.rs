//! Real sandboxes on the real kernel, as root and as an ordinary account.

mod access;
mod account;
mod escapes;
mod limits;
mod network;
mod start;
mod support;
