//! Each call, allowed and refused.
