-- Uploads that are continued request by request, through any instance, after any restart: see src/sql/resumable.rs.

-- Beside its row in upload, whose instance_id is -1 ("nobody's, and alive until it expires"), until it is finished; then node_id and
-- node_seq say what it became, for a client that did not hear the answer, and path where that is.
CREATE TABLE resumable (
    content_id  INTEGER PRIMARY KEY,
    uid         BLOB NOT NULL UNIQUE, -- its name in addresses
    space_id    INTEGER NOT NULL,
    account_id  INTEGER NOT NULL,
    path        TEXT NOT NULL,
    length      INTEGER NOT NULL CHECK (length >= 0),
    conflict    INTEGER NOT NULL CHECK (conflict BETWEEN 0 AND 2), -- fail, replace, keep both
    expect_seq  INTEGER,
    modified_ms INTEGER,
    metadata    TEXT NOT NULL,        -- as the client wrote it
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    fence       INTEGER NOT NULL,     -- counts up with every writer
    tail_bytes  INTEGER NOT NULL CHECK (tail_bytes >= 0),
    node_id     INTEGER,
    node_seq    INTEGER,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(content_id, uid, space_id, account_id, path, length, conflict, expect_seq, modified_ms, metadata, created_ms,
                 expires_ms, fence, tail_bytes, node_id, node_seq)) STORED
);
CREATE INDEX resumable_account ON resumable (account_id);
CREATE INDEX resumable_space ON resumable (space_id);
CREATE INDEX resumable_expiry ON resumable (expires_ms);

-- What arrived after the last full block, less than a block, sealed. Apart, since the row above changes with every request.
CREATE TABLE tail (
    content_id INTEGER PRIMARY KEY,
    tag        BLOB NOT NULL,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(content_id, tag, sealed)) STORED,
    sealed     BLOB NOT NULL
);
PRAGMA user_version = 6;
