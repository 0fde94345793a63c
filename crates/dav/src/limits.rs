//! Every limit of this face, with its reason. Limits shared with other crates are in [`holdfast_base::limits`],
//! those of what every HTTP face parses in [`holdfast_http::limits`].

pub use holdfast_http::limits::{ENTITY_TAGS_MAX, RANGE_GAP_BYTES, RANGES_MAX};

/// Longest XML request body. The largest sensible PROPPATCH carries [`holdfast_base::limits::PROPERTIES_BYTES_MAX`] of
/// properties; this is sixteen times that.
pub const XML_BODY_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting of an XML request body: DAV itself nests five levels, a property's value gets the rest.
pub const XML_DEPTH_MAX: usize = 64;

/// Elements in an XML request body.
pub const XML_ELEMENTS_MAX: usize = 16_384;

/// Attributes on one element, namespace declarations included; checking them for doubles is quadratic.
pub const XML_ATTRIBUTES_MAX: usize = 64;

/// Namespace declarations in scope at one place: looking one up is linear.
pub const XML_NAMESPACES_MAX: usize = 256;

/// Properties one PROPFIND may name, or one PROPPATCH may change: each costs a line for every member of the answer.
pub const PROPERTIES_NAMED_MAX: usize = 256;

/// Longest `DAV:owner` of a lock, serialized: clients put a name, an address or a URL there. A listing may have all locks of an
/// account in memory, so this times [`holdfast_base::limits::LOCKS_PER_ACCOUNT_MAX`], 10 MB, is what a hostile one can cost.
pub const LOCK_OWNER_BYTES_MAX: usize = 1_024;

/// Seconds a lock lives if the client asks for nothing.
pub const LOCK_SECONDS_DEFAULT: u32 = 3_600;

/// Nodes a PROPFIND of depth infinity may meet before it is refused (`DAV:propfind-finite-depth`). It fits the source
/// tree of a kernel. The answer is streamed; in memory are at most the folders still to be listed.
pub const INFINITY_NODES_MAX: usize = 100_000;

/// Members asked from the drive at once while listing: one query each, a few hundred KiB of rows.
pub const LIST_PAGE_NODES: usize = 1_000;

/// Nodes whose dead properties are fetched at once: at most 64 KiB each, so 2 MiB.
pub const PROPERTIES_PAGE_NODES: usize = 32;

/// A streamed answer is handed to the socket in pieces of about this many bytes. An answer that is finished within its first
/// piece is sent whole, with its length.
pub const ANSWER_PIECE_BYTES: usize = 64 * 1_024;

/// Conditions in one `If` header.
pub const IF_CONDITIONS_MAX: usize = 256;

/// Different resources one `If` header may speak of: each costs a walk and a look-up of locks.
pub const IF_RESOURCES_MAX: usize = 32;

/// Largest file of which PROPFIND computes `oc:checksums`: the digest is made by reading the file before the answer
/// begins. A GET or HEAD with `Want-Digest` has no such limit.
pub const CHECKSUM_PROPERTY_BYTES_MAX: u64 = 1 << 30;

/// Unread request body that is read and thrown away after an early error, so that the connection stays usable. A longer
/// one is left alone: the connection closes.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1_024;

/// Seconds a client is told to wait when a dependency is down.
pub const RETRY_AFTER_UNAVAILABLE_S: u32 = 5;
