//! Everything a client sends, made into plain values: paths, headers and XML bodies. No I/O; every function takes any
//! bytes at all and answers an error rather than panic, which is what the fuzz targets try.
//!
//! An error's message names the header and says how it is written. What an RFC tells a server to ignore rather than refuse
//! (an unknown range unit, a date that is none) is an `Option` or a default here.

mod digests;
mod fields;
mod if_header;
mod target;

pub use crate::xml::{
    Fragment, LockInfo, PropFind, PropName, PropPatch, PropUpdate, lock_info, prop_find, property_update,
};
pub use digests::{DigestField, content_md5, digest, oc_checksum, repr_digest, want_digest, want_repr_digest};
pub use fields::{
    ContentRange, Depth, content_range, depth, lock_token, mtime_ms, overwrite, timeout_s, win32_time_ms,
};
pub use holdfast_http::{EntityTag, RangeRequest, TagList, ranges, tag_list};
pub use if_header::{Condition, IfHeader, IfLists, if_header};
pub use target::{Resolved, Target, resolve, target};
