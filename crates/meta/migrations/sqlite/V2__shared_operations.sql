-- The sum of locks is kept by the operations themselves, as every other sum: a trigger is one more thing that databases differ in.

DROP TRIGGER node_lock_added;
DROP TRIGGER node_lock_removed;

-- At most one row: the catalogue that this one is, or was, copied from (src/migrate).
CREATE TABLE migration (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    source   TEXT NOT NULL,
    finished INTEGER NOT NULL
);
PRAGMA user_version = 2;
