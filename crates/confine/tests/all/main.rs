//! Policies that mounts hold, on the real kernel; and the page of all tests of ways out.

mod views;
mod ways_out;
