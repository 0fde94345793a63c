//! Every limit that more than one crate must agree on, with its reason. Limits of one crate live in that crate.

/// Longest node name, in bytes of UTF-8: what Linux file systems take (`NAME_MAX`), so that any drive can be mounted.
pub const NAME_BYTES_MAX: usize = 255;

/// Deepest path, in names: deep enough for any real tree and for the 1,000-level torture trees, small enough that a walk
/// to the root is always cheap.
pub const PATH_DEPTH_MAX: usize = 1_024;

/// Longest path in bytes, with separators: below the 65,534 bytes hyper accepts in a request target, after percent-encoding
/// of a typical path.
pub const PATH_BYTES_MAX: usize = 32 * 1_024;

/// Plaintext bytes in a block. A field of the format, not a constant of the code that reads: this is only what new content
/// is cut into. 1 MiB amortises the header and per-block work and still lets a range read of a few KiB answer within
/// a millisecond or two.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Largest block any reader accepts; a declared length above this is damage, not an allocation.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;

/// Largest file: 16 TiB, 2^24 blocks of 1 MiB; its manifest is then 512 MiB, which is read in chunks and never whole.
pub const FILE_BYTES_MAX: u64 = 16 << 40;

/// Longest account or space name, in bytes: it must fit a URL segment and a column of a listing.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 64;

/// Dead properties on one node, all together, in bytes of name, namespace and value.
pub const PROPERTIES_BYTES_MAX: usize = 64 * 1_024;

/// Locks one account may hold at once; a forgotten lock expires, a hostile client stops here.
pub const LOCKS_PER_ACCOUNT_MAX: usize = 10_000;

/// Longest lock: a client that needs more renews. RFC 4918 section 10.7 lets the server choose.
pub const LOCK_SECONDS_MAX: u32 = 24 * 3_600;

/// Unfinished resumable uploads of one account: more than a browser that sends a folder ever leaves behind.
pub const UPLOADS_PER_ACCOUNT_MAX: usize = 1_000;

/// Unfinished resumable uploads of one visitor of a link: a page sends a few files at a time, and those that a lost network left.
pub const UPLOADS_PER_VISIT_MAX: usize = 100;

/// The same of all visitors of a link together: who opens it again and again stops here.
pub const UPLOADS_PER_LINK_MAX: usize = 1_000;
