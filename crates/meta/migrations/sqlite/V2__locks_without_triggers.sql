-- The sum of locks is kept by the operations themselves, as every other sum: a trigger is one more thing that databases differ in.

DROP TRIGGER node_lock_added;
DROP TRIGGER node_lock_removed;
PRAGMA user_version = 2;
