//! Every limit of publishing and serving, with its reason.

/// Files and pages of one site. The index of so many is about 10 MB, which a node holds in memory for each site it serves.
pub const FILES_MAX: usize = 50_000;

/// Largest page source, template, fragment or `site.toml`: text somebody wrote. Larger HTML files are published as they are.
pub const SOURCE_BYTES_MAX: u64 = 4 << 20;

/// All page sources of a site together: they are in memory while a site is composed.
pub const SOURCES_BYTES_MAX: u64 = 128 << 20;

/// Largest composed page: a template that loops must not fill memory.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// All composed pages together, in memory until they are stored.
pub const PAGES_BYTES_MAX: usize = 512 << 20;

/// Steps of the template engine for one page; a second or so of looping.
pub const TEMPLATE_STEPS_MAX: u64 = 10_000_000;

/// Fragments within fragments: deeper nesting is a cycle.
pub const TEMPLATE_DEPTH_MAX: usize = 64;

/// Largest content that is also kept compressed: made in memory, and what is larger is hardly ever text.
pub const VARIANT_BYTES_MAX: u64 = 8 << 20;

/// Smallest content worth compressing: below it, header and framing are as large as what is saved (one segment either way).
pub const VARIANT_BYTES_MIN: u64 = 256;

/// Files stored at once while publishing: keeps two cores, the disk and the shared syncs busy.
pub const STORING_AT_ONCE: usize = 8;

/// Content up to this is read into memory to be stored; larger is streamed under a temporary name.
pub const WHOLE_BYTES_MAX: u64 = 4 << 20;

/// Largest content kept in a serving node's memory; larger is streamed from the drive.
pub const CACHED_BYTES_MAX: u64 = 1 << 20;

/// Largest settings, pointer or history file that is read.
pub const RECORD_BYTES_MAX: u64 = 256 << 10;

/// Largest index that is read: [`FILES_MAX`] long paths.
pub const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Hosts of one site.
pub const HOSTS_MAX: usize = 64;

/// Redirects, and header rules, of one site.
pub const RULES_MAX: usize = 2_000;

/// Snapshots kept if nothing is said, the live one included.
pub const SNAPSHOTS_KEPT: usize = 10;

/// History entries kept: a publish every day for three years.
pub const HISTORY_MAX: usize = 1_000;

/// Longest note of a publish.
pub const NOTE_BYTES_MAX: usize = 2_000;

/// What nothing refers to is left alone for so long after it was stored: a publish that is under way may be about to refer to
/// it. A publish that takes longer than this is refused at its end.
pub const UNREFERENCED_MS: i64 = 6 * 3_600_000;

/// How often a serving node looks whether a site changed.
pub const LOOK_EVERY_MS: u64 = 1_000;

/// Longest body of a sign-in form.
pub const FORM_BYTES_MAX: usize = 8 << 10;

/// How long a visitor stays signed in to a site: a working day.
pub const VISIT_S: i64 = 12 * 3_600;

/// How long a preview link works.
pub const PREVIEW_S: i64 = 24 * 3_600;

/// Longest request path that is looked up.
pub const PATH_BYTES_MAX: usize = 8 << 10;

/// Longest host name (RFC 1035 section 2.3.4).
pub const HOST_BYTES_MAX: usize = 253;

/// Results of one search.
pub const RESULTS_MAX: usize = 50;

/// Text of a page that is searched, in bytes.
pub const SEARCHED_BYTES_MAX: usize = 32 << 10;

/// All searched text of a site: a query scans it whole, a few milliseconds for this much.
pub const SEARCH_BYTES_MAX: usize = 16 << 20;

/// Searches at once; more are told to come back.
pub const SEARCHES_AT_ONCE: usize = 2;
