-- Which node an upload and an open pack belong to, and who does the jobs: see src/sql/instances.rs.

-- A running server. (Called instance, since a node is a file or a folder here.)
CREATE TABLE instance (
    id         BIGINT PRIMARY KEY,
    uid        BYTEA NOT NULL UNIQUE, -- of its data directory
    name       TEXT COLLATE "C" NOT NULL,
    addresses  TEXT COLLATE "C" NOT NULL, -- separated by blanks
    version    TEXT COLLATE "C" NOT NULL,
    started_ms BIGINT NOT NULL, -- by the database's clock, as seen_ms
    seen_ms    BIGINT NOT NULL
);

CREATE TABLE lease (
    name        TEXT COLLATE "C" PRIMARY KEY,
    instance_id BIGINT NOT NULL,
    fence       BIGINT NOT NULL, -- counts up with every new holder
    expires_ms  BIGINT NOT NULL  -- by the database's clock
);

-- 0, like the number of an instance that is gone: nobody's.
ALTER TABLE upload ADD COLUMN instance_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pack ADD COLUMN instance_id BIGINT NOT NULL DEFAULT 0;
CREATE INDEX pack_open ON pack (id) WHERE state = 0;
