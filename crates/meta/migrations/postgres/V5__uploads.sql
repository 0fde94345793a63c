-- Uploads that are continued request by request, through any node, after any restart: see src/sql/resumable.rs.

-- Beside its row in upload, whose instance_id is -1 ("nobody's, and alive until it expires"), until it is finished; then node_id and
-- node_seq say what it became, for a client that did not hear the answer, and path where that is.
CREATE TABLE resumable (
    content_id  BIGINT PRIMARY KEY,
    uid         BYTEA NOT NULL UNIQUE, -- its name in addresses
    space_id    BIGINT NOT NULL,
    account_id  BIGINT NOT NULL,
    path        TEXT COLLATE "C" NOT NULL,
    length      BIGINT NOT NULL CHECK (length >= 0),
    conflict    BIGINT NOT NULL CHECK (conflict BETWEEN 0 AND 2), -- fail, replace, keep both
    expect_seq  BIGINT,
    modified_ms BIGINT,
    metadata    TEXT COLLATE "C" NOT NULL, -- as the client wrote it
    created_ms  BIGINT NOT NULL,
    expires_ms  BIGINT NOT NULL,
    fence       BIGINT NOT NULL, -- counts up with every writer
    tail_bytes  BIGINT NOT NULL CHECK (tail_bytes >= 0),
    node_id     BIGINT,
    node_seq    BIGINT
);
CREATE INDEX resumable_account ON resumable (account_id);
CREATE INDEX resumable_space ON resumable (space_id);
CREATE INDEX resumable_expiry ON resumable (expires_ms);

-- What arrived after the last full block, less than a block, sealed. Apart, since the row above changes with every request.
CREATE TABLE tail (
    content_id BIGINT PRIMARY KEY,
    tag        BYTEA NOT NULL,
    sealed     BYTEA NOT NULL
);
-- Sealed bytes do not shrink.
ALTER TABLE tail ALTER COLUMN sealed SET STORAGE EXTERNAL;
