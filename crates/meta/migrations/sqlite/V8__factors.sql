-- How accounts sign in besides their slots: second factors, passkeys, identities of providers. See src/sql/factors.rs and identities.rs.

-- A time-based second factor. Its secret is sealed to the account's own key; the last step is counted so that no code counts twice.
CREATE TABLE totp (
    account_id INTEGER PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
    sealed     BLOB NOT NULL,
    last_step  INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(account_id, sealed, last_step, created_ms)) STORED
);

-- Passkeys. One whose authenticator yields a secret has the account's key sealed for it, as a slot has; another is a second factor.
CREATE TABLE passkey (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    credential BLOB NOT NULL UNIQUE,
    public_key BLOB NOT NULL, -- COSE
    label      TEXT NOT NULL,
    sealed     BLOB,
    counter    INTEGER NOT NULL CHECK (counter >= 0),
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, account_id, credential, public_key, label, sealed, counter, created_ms)) STORED
);
CREATE INDEX passkey_account ON passkey (account_id);

-- Challenges that were answered: none counts twice, on whatever node.
CREATE TABLE used_ticket (
    id         BLOB PRIMARY KEY,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX used_ticket_expiry ON used_ticket (expires_ms);

-- Keys that every node has and that open no content: they seal what a browser carries from one step of a sign-in to the next.
CREATE TABLE drive_key (
    name TEXT PRIMARY KEY,
    key  BLOB NOT NULL
) WITHOUT ROWID;

-- Who an account is at a provider.
CREATE TABLE identity (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    label      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, account_id, issuer, subject, label, created_ms)) STORED,
    UNIQUE (issuer, subject)
);
CREATE INDEX identity_account ON identity (account_id);

-- Memberships that a provider's groups give: wished for until somebody with the space's key is there, then made.
CREATE TABLE space_grant (
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    space_id   INTEGER NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    issuer     TEXT NOT NULL,
    role       INTEGER NOT NULL CHECK (role BETWEEN 0 AND 2),
    made       INTEGER NOT NULL,
    PRIMARY KEY (account_id, space_id)
) WITHOUT ROWID;
CREATE INDEX space_grant_space ON space_grant (space_id);
PRAGMA user_version = 8;
