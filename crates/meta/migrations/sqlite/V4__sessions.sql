-- Sessions of browsers are slots, too: a new kind, of which an account has several, found by lookup as app tokens are.
-- A CHECK cannot be changed in place, so the table is made anew; nothing refers to it.

CREATE TABLE slot_with_sessions (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
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
INSERT INTO slot_with_sessions
    (id, account_id, kind, lookup, label, read_only, space_id, sealed, created_ms, used_ms, expires_ms)
    SELECT id, account_id, kind, lookup, label, read_only, space_id, sealed, created_ms, used_ms, expires_ms FROM slot;
DROP TABLE slot;
ALTER TABLE slot_with_sessions RENAME TO slot;
-- A kind either is found by its lookup, or an account has one of it at most.
CREATE UNIQUE INDEX slot_lookup ON slot (lookup, kind) WHERE lookup <> '';
CREATE UNIQUE INDEX slot_single ON slot (account_id, kind) WHERE lookup = '';
CREATE INDEX slot_account ON slot (account_id);
PRAGMA user_version = 4;
