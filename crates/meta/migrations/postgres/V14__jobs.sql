-- Transfers that the server runs by schedule: src/sql/jobs.rs. The JSON is of crates/jobs, and is not read here.

-- dealt_with_ms: due times up to then are dealt with.
CREATE TABLE job (
    name          TEXT COLLATE "C" PRIMARY KEY,
    dealt_with_ms BIGINT NOT NULL
);

-- Without a beginning it was asked for and waits; with an end, its steps may be owed still.
CREATE TABLE job_run (
    id          BIGINT PRIMARY KEY,
    job         TEXT COLLATE "C" NOT NULL,
    cause       TEXT COLLATE "C" NOT NULL,
    by_name     TEXT COLLATE "C" NOT NULL,    -- the account that asked for it, or empty
    wish        TEXT COLLATE "C" NOT NULL,    -- what of the job was asked for, JSON
    due_ms      BIGINT NOT NULL,
    began_ms    BIGINT,
    ended_ms    BIGINT,
    attempt     BIGINT NOT NULL CHECK (attempt >= 0),
    result      TEXT COLLATE "C",
    done        TEXT COLLATE "C" NOT NULL,    -- JSON
    errors      TEXT COLLATE "C" NOT NULL,    -- JSON
    step_errors TEXT COLLATE "C" NOT NULL,    -- JSON
    owes        BIGINT NOT NULL, -- whether its steps are still to be done
    stop        BIGINT NOT NULL  -- whether somebody wants it to end
);
CREATE INDEX job_run_of ON job_run (job, id);
CREATE INDEX job_run_open ON job_run (id) WHERE ended_ms IS NULL OR owes = 1;
