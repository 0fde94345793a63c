-- The catalogue, format 1, in PostgreSQL. See src/sql/mod.rs for how the tables work together.
--
-- Plain SQL: every number and truth value is a BIGINT, bytes are BYTEA, text is compared byte by byte (names are listed in byte
-- order). No triggers, no functions, no extensions. Rows carry no hash of their own, as they do in SQLite: the database
-- checks its pages itself (initdb --data-checksums).

-- Ids are never used twice; each process takes them in blocks.
CREATE SEQUENCE id_block INCREMENT BY 256;

-- One row, locked by whoever administers accounts and spaces; and one that readiness probes write.
CREATE TABLE administration (
    id    BIGINT PRIMARY KEY,
    beats BIGINT NOT NULL
);
INSERT INTO administration (id, beats) VALUES (1, 0), (2, 0);

-- ---- accounts ----------------------------------------------------------------------------------------------------

CREATE TABLE account (
    id          BIGINT PRIMARY KEY,
    uid         BYTEA NOT NULL UNIQUE,
    name        TEXT COLLATE "C" NOT NULL UNIQUE,
    admin       BIGINT NOT NULL,
    disabled    BIGINT NOT NULL,
    public_key  BYTEA NOT NULL,
    quota_bytes BIGINT,
    generation  BIGINT NOT NULL,
    created_ms  BIGINT NOT NULL
);

CREATE TABLE slot (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    kind       BIGINT NOT NULL CHECK (kind BETWEEN 0 AND 3),
    lookup     TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    read_only  BIGINT NOT NULL,
    space_id   BIGINT,
    sealed     BYTEA NOT NULL,
    created_ms BIGINT NOT NULL,
    used_ms    BIGINT,
    expires_ms BIGINT
);
CREATE UNIQUE INDEX slot_lookup ON slot (kind, lookup) WHERE kind = 1;
CREATE UNIQUE INDEX slot_single ON slot (account_id, kind) WHERE kind <> 1;
CREATE INDEX slot_account ON slot (account_id);

CREATE TABLE attempt (
    key      TEXT COLLATE "C" PRIMARY KEY,
    failures BIGINT NOT NULL,
    last_ms  BIGINT NOT NULL
);
CREATE INDEX attempt_age ON attempt (last_ms);

CREATE TABLE traffic (
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    day        BIGINT NOT NULL, -- days since 1970-01-01, UTC
    requests   BIGINT NOT NULL,
    bytes_in   BIGINT NOT NULL,
    bytes_out  BIGINT NOT NULL,
    PRIMARY KEY (account_id, day)
);

-- ---- spaces ------------------------------------------------------------------------------------------------------

CREATE TABLE space (
    id             BIGINT PRIMARY KEY,
    uid            BYTEA NOT NULL UNIQUE,
    name           TEXT COLLATE "C" NOT NULL UNIQUE,
    owner_id       BIGINT NOT NULL REFERENCES account (id),
    home           BIGINT NOT NULL,
    root_id        BIGINT NOT NULL,
    compression    TEXT COLLATE "C" NOT NULL, -- none, lz4, zstd:LEVEL
    retention_days BIGINT NOT NULL,
    versions_max   BIGINT,
    bytes_max      BIGINT,
    quota_bytes    BIGINT,
    created_ms     BIGINT NOT NULL
);
CREATE INDEX space_owner ON space (owner_id);

-- What changes with every operation, apart from the wide row above; every operation on a space locks this row first. Room is
-- left on the pages, so that a new version of a row finds place beside the old one.
CREATE TABLE space_sum (
    space_id         BIGINT PRIMARY KEY REFERENCES space (id) ON DELETE CASCADE,
    seq              BIGINT NOT NULL CHECK (seq >= 0),
    used_bytes       BIGINT NOT NULL CHECK (used_bytes >= 0),
    version_bytes    BIGINT NOT NULL CHECK (version_bytes >= 0 AND version_bytes <= used_bytes),
    reserved_bytes   BIGINT NOT NULL CHECK (reserved_bytes >= 0),
    raw_bytes        BIGINT NOT NULL CHECK (raw_bytes >= 0),
    sealed_bytes     BIGINT NOT NULL CHECK (sealed_bytes >= 0),
    locks            BIGINT NOT NULL CHECK (locks >= 0),  -- rows in node_lock, live or lapsed
    versions_dropped BIGINT NOT NULL, -- counts removed versions; guards the sizes kept in trash
    sweep            BIGINT NOT NULL  -- a bound on versions was lowered: expiry looks at every file once
) WITH (fillfactor = 50);

CREATE TABLE member (
    space_id    BIGINT NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    account_id  BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    role        BIGINT NOT NULL CHECK (role BETWEEN 0 AND 2),
    wrapped_key BYTEA NOT NULL,
    PRIMARY KEY (space_id, account_id)
);
CREATE INDEX member_account ON member (account_id);

-- ---- the tree ----------------------------------------------------------------------------------------------------

-- parent_id is a node's id, or 0 for a space's root (named by the space's id), or minus the space's id for what hangs in
-- the space's limbo: trash (named 't' and the entry's id) with a row in trash until it is purged, what was purged at once
-- ('g' and the node's id), and a node in between two places of a move or copy ('m' and its id).
CREATE TABLE node (
    parent_id      BIGINT NOT NULL,
    name           TEXT COLLATE "C" NOT NULL,
    id             BIGINT NOT NULL UNIQUE,
    space_id       BIGINT NOT NULL,
    kind           BIGINT NOT NULL CHECK (kind IN (0, 1)),
    content_id     BIGINT,
    size           BIGINT NOT NULL CHECK (size >= 0),
    seq            BIGINT NOT NULL,
    created_ms     BIGINT NOT NULL,
    modified_ms    BIGINT NOT NULL,
    has_properties BIGINT NOT NULL,
    PRIMARY KEY (parent_id, name)
);

-- One row a property is kept by the operations: a namespace may be longer than the key of an index.
CREATE TABLE property (
    node_id   BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    xml       TEXT COLLATE "C" NOT NULL
);
CREATE INDEX property_node ON property (node_id);

-- Old versions; a file that was written once has none.
CREATE TABLE version (
    node_id       BIGINT NOT NULL,
    seq           BIGINT NOT NULL,
    space_id      BIGINT NOT NULL,
    content_id    BIGINT,
    size          BIGINT NOT NULL CHECK (size >= 0),
    modified_ms   BIGINT NOT NULL,
    superseded_ms BIGINT NOT NULL,
    by_id         BIGINT NOT NULL,
    PRIMARY KEY (node_id, seq)
);
CREATE INDEX version_age ON version (space_id, superseded_ms);

-- The sizes of a subtree are null until somebody needed them (a delete costs the same for any tree).
CREATE TABLE trash (
    id            BIGINT PRIMARY KEY,
    space_id      BIGINT NOT NULL,
    node_id       BIGINT NOT NULL UNIQUE,
    kind          BIGINT NOT NULL,
    path          TEXT COLLATE "C" NOT NULL,
    deleted_ms    BIGINT NOT NULL,
    by_id         BIGINT NOT NULL,
    bytes         BIGINT CHECK (bytes >= 0),
    version_bytes BIGINT CHECK (version_bytes >= 0),
    nodes         BIGINT
);
CREATE INDEX trash_space ON trash (space_id, id);
CREATE INDEX trash_age ON trash (space_id, deleted_ms);

-- Roots of subtrees that count nowhere any more and whose rows are removed step by step.
CREATE TABLE garbage (
    node_id BIGINT PRIMARY KEY
);

-- ---- locks -------------------------------------------------------------------------------------------------------

CREATE TABLE node_lock (
    id         BIGINT PRIMARY KEY,
    token      TEXT COLLATE "C" NOT NULL UNIQUE,
    space_id   BIGINT NOT NULL,
    node_id    BIGINT NOT NULL,
    account_id BIGINT NOT NULL,
    exclusive  BIGINT NOT NULL,
    deep       BIGINT NOT NULL,
    owner_xml  TEXT COLLATE "C" NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX node_lock_node ON node_lock (node_id);
CREATE INDEX node_lock_expiry ON node_lock (space_id, expires_ms);
CREATE INDEX node_lock_account ON node_lock (account_id);

-- Every folder above a locked node. A lock's ancestors never change while it lives: moving one of them ends the lock.
CREATE TABLE lock_above (
    lock_id     BIGINT NOT NULL REFERENCES node_lock (id) ON DELETE CASCADE,
    ancestor_id BIGINT NOT NULL,
    PRIMARY KEY (lock_id, ancestor_id)
);
CREATE INDEX lock_above_ancestor ON lock_above (ancestor_id);

-- ---- content -----------------------------------------------------------------------------------------------------

-- refs counts the nodes and versions that have this content.
CREATE TABLE content (
    id          BIGINT PRIMARY KEY,
    space_id    BIGINT NOT NULL,
    refs        BIGINT NOT NULL CHECK (refs >= 0),
    size        BIGINT NOT NULL CHECK (size >= 0),
    block_bytes BIGINT NOT NULL,
    blocks      BIGINT NOT NULL,
    nonce       BYTEA NOT NULL,
    tag         BYTEA NOT NULL,
    inline      BYTEA
);
-- Sealed bytes do not shrink.
ALTER TABLE content ALTER COLUMN inline SET STORAGE EXTERNAL;

CREATE TABLE manifest (
    content_id BIGINT NOT NULL,
    chunk      BIGINT NOT NULL,
    tag        BYTEA NOT NULL,
    blocks     BYTEA NOT NULL, -- ids, 32 bytes each, in order
    PRIMARY KEY (content_id, chunk)
);
ALTER TABLE manifest ALTER COLUMN blocks SET STORAGE EXTERNAL;

-- Contents that are being uploaded: the only ones that may have no references and still be wanted.
CREATE TABLE upload (
    content_id     BIGINT PRIMARY KEY,
    space_id       BIGINT NOT NULL,
    reserved_bytes BIGINT NOT NULL CHECK (reserved_bytes >= 0),
    created_ms     BIGINT NOT NULL
);
CREATE INDEX upload_space ON upload (space_id);

-- Contents with a manifest that nothing refers to any more; their block references are given back step by step.
CREATE TABLE spent (
    content_id BIGINT PRIMARY KEY
);

-- ---- blocks and packs --------------------------------------------------------------------------------------------

CREATE TABLE block (
    space_id     BIGINT NOT NULL,
    id           BYTEA NOT NULL,
    refs         BIGINT NOT NULL CHECK (refs > 0),
    pack_id      BIGINT NOT NULL,
    "offset"     BIGINT NOT NULL,
    sealed_bytes BIGINT NOT NULL,
    raw_bytes    BIGINT NOT NULL,
    PRIMARY KEY (space_id, id)
);
CREATE INDEX block_place ON block (pack_id, "offset");

CREATE TABLE pack (
    id          BIGINT PRIMARY KEY,
    name        BYTEA NOT NULL UNIQUE,
    state       BIGINT NOT NULL CHECK (state BETWEEN 0 AND 2),
    total_bytes BIGINT NOT NULL,
    live_bytes  BIGINT NOT NULL CHECK (live_bytes >= 0),
    created_ms  BIGINT NOT NULL
);
CREATE INDEX pack_spent ON pack (state, id) WHERE live_bytes = 0;

-- At most one row: the catalogue that this one is, or was, copied from (src/migrate).
CREATE TABLE migration (
    id       BIGINT PRIMARY KEY CHECK (id = 1),
    source   TEXT COLLATE "C" NOT NULL,
    finished BIGINT NOT NULL
);
