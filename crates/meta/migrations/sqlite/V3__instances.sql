-- Which process an upload and an open pack belong to, and who does the jobs: see src/sql/instances.rs.

-- A running server. (Called instance, since a node is a file or a folder here.)
CREATE TABLE instance (
    id         INTEGER PRIMARY KEY,
    uid        BLOB NOT NULL UNIQUE, -- of its data directory
    name       TEXT NOT NULL,
    addresses  TEXT NOT NULL,        -- separated by blanks
    version    TEXT NOT NULL,
    started_ms INTEGER NOT NULL,     -- by the database's clock, as seen_ms
    seen_ms    INTEGER NOT NULL
);

CREATE TABLE lease (
    name        TEXT PRIMARY KEY,
    instance_id INTEGER NOT NULL,
    fence       INTEGER NOT NULL, -- counts up with every new holder
    expires_ms  INTEGER NOT NULL  -- by the database's clock
) WITHOUT ROWID;

-- 0, like the number of an instance that is gone: nobody's.
ALTER TABLE upload ADD COLUMN instance_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pack ADD COLUMN instance_id INTEGER NOT NULL DEFAULT 0;
CREATE INDEX pack_open ON pack (id) WHERE state = 0;
PRAGMA user_version = 3;
