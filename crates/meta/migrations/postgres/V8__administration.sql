-- What administrators look at: who did what (src/sql/audit.rs), and how the nodes did (src/sql/monitor.rs).

CREATE TABLE audit (
    id      BIGINT PRIMARY KEY,
    at_ms   BIGINT NOT NULL,
    account TEXT COLLATE "C" NOT NULL, -- its name at that time; empty if nobody was signed in
    address TEXT COLLATE "C" NOT NULL,
    node    TEXT COLLATE "C" NOT NULL,
    action  TEXT COLLATE "C" NOT NULL,
    object  TEXT COLLATE "C" NOT NULL,
    detail  TEXT COLLATE "C" NOT NULL,
    result  TEXT COLLATE "C" NOT NULL  -- ok, or the status
);
CREATE INDEX audit_time ON audit (at_ms, id);
CREATE INDEX audit_account ON audit (account, at_ms, id);

-- What each node last said of itself, and each minute of a day, as JSON.
CREATE TABLE sample (
    instance_id BIGINT PRIMARY KEY,
    at_ms       BIGINT NOT NULL,
    figures     TEXT COLLATE "C" NOT NULL
);
CREATE TABLE sample_minute (
    at_ms   BIGINT NOT NULL,
    node    TEXT COLLATE "C" NOT NULL,
    figures TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (at_ms, node)
);

-- What is stored, once an hour for a year.
CREATE TABLE capacity (
    hour        BIGINT PRIMARY KEY, -- hours since 1970, UTC
    packs       BIGINT NOT NULL,
    total_bytes BIGINT NOT NULL,
    live_bytes  BIGINT NOT NULL,
    used_bytes  BIGINT NOT NULL,
    free_bytes  BIGINT                 -- of the disk; none where nobody knows
);
