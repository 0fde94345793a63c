-- Hard links: nodes that are one file. See src/sql/bonds.rs.

-- A name of a file that has others, or of one that had and is known by the number of another. Nodes of one bond_id have one content and
-- one set of attributes; a bond_id is the number of one of them, or of no node at all.
CREATE TABLE bond (
    node_id  INTEGER PRIMARY KEY,
    bond_id  INTEGER NOT NULL,
    space_id INTEGER NOT NULL,
    sum      INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(node_id, bond_id, space_id)) STORED
);
CREATE INDEX bond_nodes ON bond (space_id, bond_id);

-- What its program knows: src/sql/instances.rs.
ALTER TABLE instance ADD COLUMN level INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 16;
