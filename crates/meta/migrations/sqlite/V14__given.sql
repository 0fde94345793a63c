-- Numbers that were given to mounts on other machines: src/sql/numbers.rs.

-- From start_id to end_id, which is none of them, to an account for a space; given_ms: when the last of them were.
CREATE TABLE given (
    start_id   INTEGER PRIMARY KEY,
    end_id     INTEGER NOT NULL CHECK (end_id > start_id),
    space_id   INTEGER NOT NULL REFERENCES space (id) ON DELETE CASCADE,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    given_ms   INTEGER NOT NULL
);
CREATE INDEX given_to ON given (space_id, account_id, start_id);
CREATE INDEX given_account ON given (account_id);
PRAGMA user_version = 14;
