-- The catalogue, format 1. See src/sqlite/mod.rs for how the tables work together.
--
-- Ids come from one counter for the whole database and are never used twice. `sum` columns are a hash of the row's other
-- values (src/sqlite/row_sum.rs), by which `check` finds a flipped bit in a value that is written down nowhere else.

PRAGMA application_id = 1215261796; -- "Hold"
PRAGMA user_version = 1;

CREATE TABLE counter (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    next_id INTEGER NOT NULL
);
INSERT INTO counter (only, next_id) VALUES (1, 1);

-- ---- accounts ----------------------------------------------------------------------------------------------------

CREATE TABLE account (
    id          INTEGER PRIMARY KEY,
    uid         BLOB NOT NULL UNIQUE,
    name        TEXT NOT NULL UNIQUE,
    admin       INTEGER NOT NULL,
    disabled    INTEGER NOT NULL,
    public_key  BLOB NOT NULL,
    quota_bytes INTEGER,
    generation  INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, uid, name, admin, disabled, public_key, quota_bytes, generation, created_ms)) STORED
);

CREATE TABLE slot (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    lookup     TEXT NOT NULL,
    label      TEXT NOT NULL,
    read_only  INTEGER NOT NULL,
    space_id   INTEGER,
    sealed     BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    expires_ms INTEGER,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, account_id, kind, lookup, label, read_only, space_id, sealed, created_ms, expires_ms)) STORED
);
CREATE UNIQUE INDEX slot_lookup ON slot (kind, lookup) WHERE kind = 1;
CREATE UNIQUE INDEX slot_single ON slot (account_id, kind) WHERE kind <> 1;
CREATE INDEX slot_account ON slot (account_id);

CREATE TABLE attempt (
    key      TEXT PRIMARY KEY,
    failures INTEGER NOT NULL,
    last_ms  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX attempt_age ON attempt (last_ms);

CREATE TABLE traffic (
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    day        INTEGER NOT NULL, -- days since 1970-01-01, UTC
    requests   INTEGER NOT NULL,
    bytes_in   INTEGER NOT NULL,
    bytes_out  INTEGER NOT NULL,
    PRIMARY KEY (account_id, day)
) WITHOUT ROWID;

-- ---- spaces ------------------------------------------------------------------------------------------------------

CREATE TABLE space (
    id             INTEGER PRIMARY KEY,
    uid            BLOB NOT NULL UNIQUE,
    name           TEXT NOT NULL UNIQUE,
    owner_id       INTEGER NOT NULL REFERENCES account (id),
    home           INTEGER NOT NULL,
    root_id        INTEGER NOT NULL,
    compression    TEXT NOT NULL, -- none, lz4, zstd:LEVEL
    retention_days INTEGER NOT NULL,
    versions_max   INTEGER,
    bytes_max      INTEGER,
    quota_bytes    INTEGER,
    created_ms     INTEGER NOT NULL,
    sum            INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, uid, name, owner_id, home, root_id, compression, retention_days, versions_max, bytes_max,
                 quota_bytes, created_ms)) STORED
);
CREATE INDEX space_owner ON space (owner_id);

-- What changes with every operation, apart from the wide row above.
CREATE TABLE space_sum (
    space_id         INTEGER PRIMARY KEY REFERENCES space (id) ON DELETE CASCADE,
    seq              INTEGER NOT NULL CHECK (seq >= 0),
    used_bytes       INTEGER NOT NULL CHECK (used_bytes >= 0),
    version_bytes    INTEGER NOT NULL CHECK (version_bytes >= 0 AND version_bytes <= used_bytes),
    reserved_bytes   INTEGER NOT NULL CHECK (reserved_bytes >= 0),
    raw_bytes        INTEGER NOT NULL CHECK (raw_bytes >= 0),
    sealed_bytes     INTEGER NOT NULL CHECK (sealed_bytes >= 0),
    locks            INTEGER NOT NULL CHECK (locks >= 0),  -- rows in node_lock, live or lapsed; kept by triggers
    versions_dropped INTEGER NOT NULL, -- counts removed versions; guards the sizes kept in trash
    sweep            INTEGER NOT NULL  -- a bound on versions was lowered: expiry looks at every file once
);

CREATE TABLE member (
    space_id    INTEGER NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    account_id  INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    role        INTEGER NOT NULL CHECK (role BETWEEN 0 AND 2),
    wrapped_key BLOB NOT NULL,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(space_id, account_id, role, wrapped_key)) STORED,
    PRIMARY KEY (space_id, account_id)
) WITHOUT ROWID;
CREATE INDEX member_account ON member (account_id);

-- ---- the tree ----------------------------------------------------------------------------------------------------

-- parent_id is a node's id, or 0 for a space's root (named by the space's id), or minus the space's id for what hangs in
-- the space's limbo: trash (named 't' and the entry's id) with a row in trash until it is purged, what was purged at once
-- ('g' and the node's id), and a node in between two places of a move or copy ('m' and its id).
CREATE TABLE node (
    parent_id      INTEGER NOT NULL,
    name           TEXT NOT NULL,
    id             INTEGER NOT NULL,
    space_id       INTEGER NOT NULL,
    kind           INTEGER NOT NULL CHECK (kind IN (0, 1)),
    content_id     INTEGER,
    size           INTEGER NOT NULL CHECK (size >= 0),
    seq            INTEGER NOT NULL,
    created_ms     INTEGER NOT NULL,
    modified_ms    INTEGER NOT NULL,
    has_properties INTEGER NOT NULL,
    sum            INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(parent_id, name, id, space_id, kind, content_id, size, seq, created_ms, modified_ms,
                 has_properties)) STORED,
    PRIMARY KEY (parent_id, name)
) WITHOUT ROWID;
CREATE UNIQUE INDEX node_id ON node (id);

CREATE TABLE property (
    node_id   INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    xml       TEXT NOT NULL,
    sum       INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(node_id, namespace, name, xml)) STORED,
    PRIMARY KEY (node_id, namespace, name)
) WITHOUT ROWID;

-- Old versions; a file that was written once has none.
CREATE TABLE version (
    node_id       INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    space_id      INTEGER NOT NULL,
    content_id    INTEGER,
    size          INTEGER NOT NULL CHECK (size >= 0),
    modified_ms   INTEGER NOT NULL,
    superseded_ms INTEGER NOT NULL,
    by_id         INTEGER NOT NULL,
    sum           INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(node_id, seq, space_id, content_id, size, modified_ms, superseded_ms, by_id)) STORED,
    PRIMARY KEY (node_id, seq)
) WITHOUT ROWID;
CREATE INDEX version_age ON version (space_id, superseded_ms);

-- The sizes of a subtree are null until somebody needed them (a delete costs the same for any tree).
CREATE TABLE trash (
    id            INTEGER PRIMARY KEY,
    space_id      INTEGER NOT NULL,
    node_id       INTEGER NOT NULL UNIQUE,
    kind          INTEGER NOT NULL,
    path          TEXT NOT NULL,
    deleted_ms    INTEGER NOT NULL,
    by_id         INTEGER NOT NULL,
    bytes         INTEGER CHECK (bytes >= 0),
    version_bytes INTEGER CHECK (version_bytes >= 0),
    nodes         INTEGER,
    sum           INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, space_id, node_id, kind, path, deleted_ms, by_id)) STORED
);
CREATE INDEX trash_space ON trash (space_id, id);
CREATE INDEX trash_age ON trash (space_id, deleted_ms);

-- Roots of subtrees that count nowhere any more and whose rows are removed step by step.
CREATE TABLE garbage (
    node_id INTEGER PRIMARY KEY
);

-- ---- locks -------------------------------------------------------------------------------------------------------

CREATE TABLE node_lock (
    id         INTEGER PRIMARY KEY,
    token      TEXT NOT NULL UNIQUE,
    space_id   INTEGER NOT NULL,
    node_id    INTEGER NOT NULL,
    account_id INTEGER NOT NULL,
    exclusive  INTEGER NOT NULL,
    deep       INTEGER NOT NULL,
    owner_xml  TEXT NOT NULL,
    expires_ms INTEGER NOT NULL
);
CREATE INDEX node_lock_node ON node_lock (node_id);
CREATE INDEX node_lock_expiry ON node_lock (space_id, expires_ms);
CREATE INDEX node_lock_account ON node_lock (account_id);

-- Every folder above a locked node. A lock's ancestors never change while it lives: moving one of them ends the lock.
CREATE TABLE lock_above (
    lock_id     INTEGER NOT NULL REFERENCES node_lock (id) ON DELETE CASCADE,
    ancestor_id INTEGER NOT NULL,
    PRIMARY KEY (lock_id, ancestor_id)
) WITHOUT ROWID;
CREATE INDEX lock_above_ancestor ON lock_above (ancestor_id);

CREATE TRIGGER node_lock_added AFTER INSERT ON node_lock BEGIN
    UPDATE space_sum SET locks = locks + 1 WHERE space_id = NEW.space_id;
END;
CREATE TRIGGER node_lock_removed AFTER DELETE ON node_lock BEGIN
    UPDATE space_sum SET locks = locks - 1 WHERE space_id = OLD.space_id;
END;

-- ---- content -----------------------------------------------------------------------------------------------------

-- refs counts the nodes and versions that have this content. inline comes last, so that the rest is on the first page.
CREATE TABLE content (
    id          INTEGER PRIMARY KEY,
    space_id    INTEGER NOT NULL,
    refs        INTEGER NOT NULL CHECK (refs >= 0),
    size        INTEGER NOT NULL CHECK (size >= 0),
    block_bytes INTEGER NOT NULL,
    blocks      INTEGER NOT NULL,
    nonce       BLOB NOT NULL,
    tag         BLOB NOT NULL,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, space_id, size, block_bytes, blocks, nonce, tag, inline)) STORED,
    inline      BLOB
);

CREATE TABLE manifest (
    content_id INTEGER NOT NULL,
    chunk      INTEGER NOT NULL,
    tag        BLOB NOT NULL,
    blocks     BLOB NOT NULL, -- ids, 32 bytes each, in order
    sum        INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(content_id, chunk, tag, blocks)) STORED,
    PRIMARY KEY (content_id, chunk)
) WITHOUT ROWID;

-- Contents that are being uploaded: the only ones that may have no references and still be wanted.
CREATE TABLE upload (
    content_id     INTEGER PRIMARY KEY,
    space_id       INTEGER NOT NULL,
    reserved_bytes INTEGER NOT NULL CHECK (reserved_bytes >= 0),
    created_ms     INTEGER NOT NULL
);
CREATE INDEX upload_space ON upload (space_id);

-- Contents with a manifest that nothing refers to any more; their block references are given back step by step.
CREATE TABLE spent (
    content_id INTEGER PRIMARY KEY
);

-- ---- blocks and packs --------------------------------------------------------------------------------------------

CREATE TABLE block (
    space_id     INTEGER NOT NULL,
    id           BLOB NOT NULL,
    refs         INTEGER NOT NULL CHECK (refs > 0),
    pack_id      INTEGER NOT NULL,
    offset       INTEGER NOT NULL,
    sealed_bytes INTEGER NOT NULL,
    raw_bytes    INTEGER NOT NULL,
    sum          INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(space_id, id, pack_id, offset, sealed_bytes, raw_bytes)) STORED,
    PRIMARY KEY (space_id, id)
) WITHOUT ROWID;
CREATE INDEX block_place ON block (pack_id, offset);

CREATE TABLE pack (
    id          INTEGER PRIMARY KEY,
    name        BLOB NOT NULL UNIQUE,
    state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    total_bytes INTEGER NOT NULL,
    live_bytes  INTEGER NOT NULL CHECK (live_bytes >= 0),
    created_ms  INTEGER NOT NULL,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(id, name, total_bytes, created_ms)) STORED
);
CREATE INDEX pack_spent ON pack (state, id) WHERE live_bytes = 0;
