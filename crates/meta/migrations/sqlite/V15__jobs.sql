-- Transfers that the server runs by schedule: src/sql/jobs.rs. The JSON is of crates/jobs, and is not read here.

-- dealt_with_ms: due times up to then are dealt with.
CREATE TABLE job (
    name          TEXT PRIMARY KEY,
    dealt_with_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- Without a beginning it was asked for and waits; with an end, its steps may be owed still.
CREATE TABLE job_run (
    id          INTEGER PRIMARY KEY,
    job         TEXT NOT NULL,
    cause       TEXT NOT NULL,
    by_name     TEXT NOT NULL,    -- the account that asked for it, or empty
    wish        TEXT NOT NULL,    -- what of the job was asked for, JSON
    due_ms      INTEGER NOT NULL,
    began_ms    INTEGER,
    ended_ms    INTEGER,
    attempt     INTEGER NOT NULL CHECK (attempt >= 0),
    result      TEXT,
    done        TEXT NOT NULL,    -- JSON
    errors      TEXT NOT NULL,    -- JSON
    step_errors TEXT NOT NULL,    -- JSON
    owes        INTEGER NOT NULL, -- whether its steps are still to be done
    stop        INTEGER NOT NULL  -- whether somebody wants it to end
);
CREATE INDEX job_run_of ON job_run (job, id);
CREATE INDEX job_run_open ON job_run (id) WHERE ended_ms IS NULL OR owes = 1;
PRAGMA user_version = 15;
