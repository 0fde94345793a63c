-- Folders shared with accounts and by link: see src/sql/shares.rs.

-- Who may do what below one node of a space. A link is a share with nobody in particular: account_id is NULL, name is empty.
CREATE TABLE share (
    id            INTEGER PRIMARY KEY,
    uid           BLOB NOT NULL UNIQUE, -- its name in addresses, bound into what is sealed for it
    space_id      INTEGER NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    node_id       INTEGER NOT NULL,     -- outlives the node, which may come back from the trash
    by_id         INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    account_id    INTEGER REFERENCES account (id) ON DELETE CASCADE,
    name          TEXT NOT NULL,        -- what the account calls it, beside its spaces
    label         TEXT NOT NULL,
    access        INTEGER NOT NULL CHECK (access BETWEEN 0 AND 2), -- read, write, upload only
    wrapped_key   BLOB NOT NULL,        -- the space's key, for the account's public key or the link's
    sealed        BLOB NOT NULL,        -- of a link: its private key, for its secret (and password)
    proof         BLOB NOT NULL,        -- of a link: a hash of its secret
    secret        BLOB NOT NULL,        -- of a link: its secret, for the public key of whoever made it
    has_password  INTEGER NOT NULL,
    expires_ms    INTEGER,
    downloads_max INTEGER CHECK (downloads_max > 0),
    downloads     INTEGER NOT NULL CHECK (downloads >= 0),
    created_ms    INTEGER NOT NULL,
    sum           INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, uid, space_id, node_id, by_id, account_id, name, label, access, wrapped_key, sealed, proof, secret,
                 has_password, expires_ms, downloads_max, downloads, created_ms)) STORED
);
CREATE UNIQUE INDEX share_name ON share (account_id, name) WHERE account_id IS NOT NULL;
CREATE INDEX share_space ON share (space_id, node_id);
CREATE INDEX share_by ON share (by_id);

-- Visits of links: sessions, each limited to its link and gone with it.
CREATE TABLE visit (
    id         INTEGER PRIMARY KEY,
    share_id   INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
    lookup     TEXT NOT NULL UNIQUE,
    sealed     BLOB NOT NULL, -- the link's private key, for the visit's secret
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, share_id, lookup, sealed, created_ms, expires_ms)) STORED
);
CREATE INDEX visit_share ON visit (share_id, id);

-- What a visit of a link with a limit has downloaded: it counts once.
CREATE TABLE visit_download (
    visit_id INTEGER NOT NULL REFERENCES visit (id) ON DELETE CASCADE,
    node_id  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (visit_id, node_id, seq)
) WITHOUT ROWID;

-- An upload may come in through a share. A column cannot join a stored sum in place, so the table is made anew; nothing refers to it.
CREATE TABLE resumable_with_shares (
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
    share_id    INTEGER NOT NULL,     -- 0: none
    visit_id    INTEGER NOT NULL,     -- 0: none
    sum         INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(content_id, uid, space_id, account_id, path, length, conflict, expect_seq, modified_ms, metadata, created_ms,
                 expires_ms, fence, tail_bytes, node_id, node_seq, share_id, visit_id)) STORED
);
INSERT INTO resumable_with_shares
    (content_id, uid, space_id, account_id, path, length, conflict, expect_seq, modified_ms, metadata, created_ms, expires_ms,
     fence, tail_bytes, node_id, node_seq, share_id, visit_id)
    SELECT content_id, uid, space_id, account_id, path, length, conflict, expect_seq, modified_ms, metadata, created_ms,
           expires_ms, fence, tail_bytes, node_id, node_seq, 0, 0 FROM resumable;
DROP TABLE resumable;
ALTER TABLE resumable_with_shares RENAME TO resumable;
CREATE INDEX resumable_account ON resumable (account_id);
CREATE INDEX resumable_space ON resumable (space_id);
CREATE INDEX resumable_expiry ON resumable (expires_ms);
PRAGMA user_version = 7;
