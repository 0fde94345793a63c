//! Policies that mounts hold, on the real kernel.

mod views;
