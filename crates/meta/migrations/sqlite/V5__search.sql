-- What search looks in: see src/sql/search.rs for how it is used, src/sql/index.rs for how it is kept.

-- The words of nodes' names and tags. place: 0 the name from its first word on (one row each indexed node, empty for a name without
-- words), 1 the name from a later word on, 2 a whole tag, 3 a tag from one of its words on.
CREATE TABLE word (
    space_id INTEGER NOT NULL,
    place    INTEGER NOT NULL CHECK (place BETWEEN 0 AND 3),
    word     TEXT NOT NULL,
    node_id  INTEGER NOT NULL,
    PRIMARY KEY (space_id, place, word, node_id)
) WITHOUT ROWID;
CREATE INDEX word_node ON word (node_id);

-- Nodes whose words are not (any more) what is in the table above.
CREATE TABLE unindexed (
    space_id INTEGER NOT NULL,
    node_id  INTEGER NOT NULL,
    PRIMARY KEY (space_id, node_id)
) WITHOUT ROWID;

-- At most one row: nodes with a greater id than this may be in neither, and are put into the queue step by step.
CREATE TABLE reindex (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    after_id INTEGER NOT NULL
);
INSERT INTO reindex (id, after_id) SELECT 1, 0 WHERE EXISTS (SELECT 1 FROM node);
PRAGMA user_version = 5;
