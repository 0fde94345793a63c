//! A process in namespaces of its own: its view of files, what it may call, its limits.
