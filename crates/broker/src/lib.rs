//! Decides about system calls of a confined program and performs them on pinned files.
