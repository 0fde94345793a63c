//! Real sandboxes on the real kernel, as root and as an ordinary account.

mod access;
mod account;
mod escapes;
mod handed;
mod layers;
mod limits;
mod live;
mod network;
mod questions;
mod start;
mod support;
mod tier;
