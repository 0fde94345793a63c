//! The tables of the catalogue, as both databases have them, and the statements that copy one.

use crate::sql::codec::rows;
use crate::sql::fault::Done;
use crate::sql::query as sql;
use crate::sql::seam::{Link, Owned, Row, Value};

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns, those of the key first. What a database computes itself is not among them.
    pub(super) columns: &'static [&'static str],
    /// How many of them are the key.
    pub(super) keys: usize,
    /// Rows of one batch: 16 MiB of the largest there are.
    pub(super) batch_rows: usize,
}

/// Most rows are small; the largest (tiny content and manifests) have some 64 KiB.
const ROWS: usize = 256;
/// A tail has up to a block.
const TAIL_ROWS: usize = 16;

/// Every table, in an order in which no row refers to one that comes later.
#[rustfmt::skip]
pub(super) const TABLES: [Table; 44] = [
    table("account", 1, &["id", "uid", "name", "admin", "disabled", "public_key", "quota_bytes", "generation", "created_ms"]),
    table(
        "space",
        1,
        &[
            "id", "uid", "name", "owner_id", "home", "root_id", "compression", "retention_days", "versions_max", "bytes_max",
            "quota_bytes", "created_ms",
        ],
    ),
    table(
        "space_sum",
        1,
        &[
            "space_id", "seq", "used_bytes", "version_bytes", "reserved_bytes", "raw_bytes", "sealed_bytes", "locks",
            "versions_dropped", "sweep", "thinned_ms",
        ],
    ),
    table("member", 2, &["space_id", "account_id", "role", "wrapped_key"]),
    table(
        "slot",
        1,
        &[
            "id", "account_id", "kind", "lookup", "label", "read_only", "space_id", "sealed", "created_ms", "used_ms",
            "expires_ms",
        ],
    ),
    table(
        "share",
        1,
        &[
            "id", "uid", "space_id", "node_id", "by_id", "account_id", "name", "label", "access", "wrapped_key", "sealed", "proof",
            "secret", "has_password", "expires_ms", "downloads_max", "downloads", "created_ms",
        ],
    ),
    table("visit", 1, &["id", "share_id", "lookup", "sealed", "created_ms", "expires_ms"]),
    table("visit_download", 3, &["visit_id", "node_id", "seq"]),
    table("totp", 1, &["account_id", "sealed", "last_step", "created_ms"]),
    table(
        "passkey",
        1,
        &["id", "account_id", "credential", "public_key", "label", "sealed", "counter", "created_ms", "used_ms"],
    ),
    table("used_ticket", 1, &["id", "expires_ms"]),
    table("drive_key", 1, &["name", "key"]),
    table("identity", 1, &["id", "account_id", "issuer", "subject", "label", "created_ms", "used_ms"]),
    table("space_grant", 2, &["account_id", "space_id", "issuer", "role", "made"]),
    table(
        "saved_search",
        1,
        &[
            "id", "account_id", "name", "words", "space", "kind", "media", "min_bytes", "max_bytes", "after_ms", "before_ms",
            "within_days", "tags", "folder_id", "created_ms", "changed_ms",
        ],
    ),
    table("attempt", 1, &["key", "failures", "last_ms"]),
    table("traffic", 2, &["account_id", "day", "requests", "bytes_in", "bytes_out"]),
    table(
        "node",
        2,
        &[
            "parent_id", "name", "id", "space_id", "kind", "content_id", "size", "seq", "created_ms", "modified_ms",
            "has_properties",
        ],
    ),
    table("bond", 1, &["node_id", "bond_id", "space_id"]),
    table("property", 3, &["node_id", "namespace", "name", "xml"]),
    table(
        "posix",
        1,
        &["node_id", "kind", "mode", "uid", "gid", "rdev", "atime_ns", "mtime_ns", "ctime_ns", "xattrs"],
    ),
    table("xattr", 2, &["node_id", "name", "value"]),
    table("held", 1, &["node_id", "until_ms", "forget"]),
    table("journal", 1, &["id", "space_id", "last", "missed", "seen_ms"]),
    table("given", 1, &["start_id", "end_id", "space_id", "account_id", "given_ms"]),
    table(
        "version",
        2,
        &["node_id", "seq", "space_id", "content_id", "size", "modified_ms", "superseded_ms", "by_id"],
    ),
    table(
        "trash",
        1,
        &["id", "space_id", "node_id", "kind", "path", "deleted_ms", "by_id", "bytes", "version_bytes", "nodes"],
    ),
    table("garbage", 1, &["node_id"]),
    table(
        "node_lock",
        1,
        &["id", "token", "space_id", "node_id", "account_id", "exclusive", "deep", "owner_xml", "expires_ms"],
    ),
    table("lock_above", 2, &["lock_id", "ancestor_id"]),
    table("content", 1, &["id", "space_id", "refs", "size", "block_bytes", "blocks", "nonce", "tag", "inline"]),
    table("manifest", 2, &["content_id", "chunk", "tag", "blocks"]),
    table("upload", 1, &["content_id", "space_id", "reserved_bytes", "created_ms", "instance_id"]),
    table(
        "resumable",
        1,
        &[
            "content_id", "uid", "space_id", "account_id", "path", "length", "conflict", "expect_seq", "modified_ms", "metadata",
            "created_ms", "expires_ms", "fence", "tail_bytes", "node_id", "node_seq", "share_id", "visit_id",
        ],
    ),
    Table { batch_rows: TAIL_ROWS, ..table("tail", 1, &["content_id", "tag", "sealed"]) },
    table("resumable_tags", 1, &["content_id", "tags"]),
    table("spent", 1, &["content_id"]),
    table("block", 2, &["space_id", "id", "refs", "pack_id", "\"offset\"", "sealed_bytes", "raw_bytes"]),
    table("audit", 1, &["id", "at_ms", "account", "address", "node", "action", "object", "detail", "result"]),
    table("job", 1, &["name", "dealt_with_ms"]),
    table(
        "job_run",
        1,
        &[
            "id", "job", "cause", "by_name", "wish", "due_ms", "began_ms", "ended_ms", "attempt", "result", "done", "errors",
            "step_errors", "owes", "stop",
        ],
    ),
    table("sample_minute", 2, &["at_ms", "node", "figures"]),
    table("capacity", 1, &["hour", "packs", "total_bytes", "live_bytes", "used_bytes", "free_bytes"]),
    table("pack", 1, &["id", "name", "state", "total_bytes", "live_bytes", "created_ms", "instance_id"]),
];

const fn table(name: &'static str, keys: usize, columns: &'static [&'static str]) -> Table {
    Table { name, columns, keys, batch_rows: ROWS }
}

impl Table {
    fn key(&self) -> String {
        self.columns.get(..self.keys).unwrap_or_default().join(", ")
    }

    /// Whether there is no row.
    pub(super) fn is_empty(&self, link: &dyn Link) -> Done<bool> {
        Ok(sql::first(link, &format!("SELECT 1 FROM {} LIMIT 1", self.name), (), |_| Ok(()))?.is_none())
    }

    /// The greatest key.
    pub(super) fn last_key(&self, link: &dyn Link) -> Done<Option<Vec<Owned>>> {
        let down: Vec<String> = self.columns.iter().take(self.keys).map(|column| format!("{column} DESC")).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY {} LIMIT 1", self.key(), self.name, down.join(", "));
        sql::first(link, &sql, (), line)
    }

    /// Up to `limit` rows in the order of the key, those after `key` if there is one.
    pub(super) fn after(&self, link: &dyn Link, key: Option<&[Owned]>, limit: usize) -> Done<Vec<Vec<Owned>>> {
        let mut params: Vec<Value<'_>> = key.into_iter().flatten().map(Owned::value).collect();
        let places: Vec<String> = (1..=params.len()).map(|place| format!("?{place}")).collect();
        let beyond = if params.is_empty() {
            String::new()
        } else {
            format!("WHERE ({}) > ({}) ", self.key(), places.join(", "))
        };
        params.push(Value::Integer(rows(limit)));
        let sql = format!(
            "SELECT {} FROM {} {beyond}ORDER BY {} LIMIT ?{}",
            self.columns.join(", "),
            self.name,
            self.key(),
            params.len()
        );
        sql::all(link, &sql, params.as_slice(), line)
    }

    /// The statement that adds a row.
    pub(super) fn insert(&self) -> String {
        let places: Vec<String> = (1..=self.columns.len()).map(|place| format!("?{place}")).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.name, self.columns.join(", "), places.join(", "))
    }
}

fn line(row: &Row<'_>) -> Done<Vec<Owned>> {
    (0..row.columns()).map(|column| row.value(column).map(Owned::of)).collect()
}
