-- What administrators look at: who did what (src/sql/audit.rs), and how the nodes did (src/sql/monitor.rs).

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY,
    at_ms   INTEGER NOT NULL,
    account TEXT NOT NULL, -- its name at that time; empty if nobody was signed in
    address TEXT NOT NULL,
    node    TEXT NOT NULL,
    action  TEXT NOT NULL,
    object  TEXT NOT NULL,
    detail  TEXT NOT NULL,
    result  TEXT NOT NULL  -- ok, or the status
);
CREATE INDEX audit_time ON audit (at_ms, id);
CREATE INDEX audit_account ON audit (account, at_ms, id);

-- What each node last said of itself, and each minute of a day, as JSON.
CREATE TABLE sample (
    instance_id INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    figures     TEXT NOT NULL
);
CREATE TABLE sample_minute (
    at_ms   INTEGER NOT NULL,
    node    TEXT NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (at_ms, node)
) WITHOUT ROWID;

-- What is stored, once an hour for a year.
CREATE TABLE capacity (
    hour        INTEGER PRIMARY KEY, -- hours since 1970, UTC
    packs       INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,
    live_bytes  INTEGER NOT NULL,
    used_bytes  INTEGER NOT NULL,
    free_bytes  INTEGER              -- of the disk; none where nobody knows
);
PRAGMA user_version = 9;
