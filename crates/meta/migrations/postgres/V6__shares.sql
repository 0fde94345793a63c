-- Folders shared with accounts and by link: see src/sql/shares.rs.

-- Who may do what below one node of a space. A link is a share with nobody in particular: account_id is NULL, name is empty.
CREATE TABLE share (
    id            BIGINT PRIMARY KEY,
    uid           BYTEA NOT NULL UNIQUE, -- its name in addresses, bound into what is sealed for it
    space_id      BIGINT NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    node_id       BIGINT NOT NULL,       -- outlives the node, which may come back from the trash
    by_id         BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    account_id    BIGINT REFERENCES account (id) ON DELETE CASCADE,
    name          TEXT COLLATE "C" NOT NULL, -- what the account calls it, beside its spaces
    label         TEXT COLLATE "C" NOT NULL,
    access        BIGINT NOT NULL CHECK (access BETWEEN 0 AND 2), -- read, write, upload only
    wrapped_key   BYTEA NOT NULL,        -- the space's key, for the account's public key or the link's
    sealed        BYTEA NOT NULL,        -- of a link: its private key, for its secret (and password)
    proof         BYTEA NOT NULL,        -- of a link: a hash of its secret
    secret        BYTEA NOT NULL,        -- of a link: its secret, for the public key of whoever made it
    has_password  BIGINT NOT NULL,
    expires_ms    BIGINT,
    downloads_max BIGINT CHECK (downloads_max > 0),
    downloads     BIGINT NOT NULL CHECK (downloads >= 0),
    created_ms    BIGINT NOT NULL
);
CREATE UNIQUE INDEX share_name ON share (account_id, name) WHERE account_id IS NOT NULL;
CREATE INDEX share_space ON share (space_id, node_id);
CREATE INDEX share_by ON share (by_id);

-- Visits of links: sessions, each limited to its link and gone with it.
CREATE TABLE visit (
    id         BIGINT PRIMARY KEY,
    share_id   BIGINT NOT NULL REFERENCES share (id) ON DELETE CASCADE,
    lookup     TEXT COLLATE "C" NOT NULL UNIQUE,
    sealed     BYTEA NOT NULL, -- the link's private key, for the visit's secret
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX visit_share ON visit (share_id, id);

-- What a visit of a link with a limit has downloaded: it counts once.
CREATE TABLE visit_download (
    visit_id BIGINT NOT NULL REFERENCES visit (id) ON DELETE CASCADE,
    node_id  BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    PRIMARY KEY (visit_id, node_id, seq)
);

-- An upload may come in through a share (0: none).
ALTER TABLE resumable ADD COLUMN share_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE resumable ADD COLUMN visit_id BIGINT NOT NULL DEFAULT 0;
