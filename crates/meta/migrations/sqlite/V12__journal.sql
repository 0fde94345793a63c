-- How far the journal of a mount was applied: src/sql/posix_batch.rs.

-- last: the greatest number of a change that was answered. missed: numbers up to it that were refused and may come again, eight bytes
-- each, little-endian. seen_ms: when the journal was heard of last.
CREATE TABLE journal (
    id       BLOB PRIMARY KEY,
    space_id INTEGER NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    last     INTEGER NOT NULL CHECK (last >= 0),
    missed   BLOB NOT NULL,
    seen_ms  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX journal_space ON journal (space_id);
PRAGMA user_version = 12;
