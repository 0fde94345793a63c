-- Hard links: nodes that are one file. See src/sql/bonds.rs.

-- A name of a file that has others, or of one that had and is known by the number of another. Nodes of one bond_id have one content and
-- one set of attributes; a bond_id is the number of one of them, or of no node at all.
CREATE TABLE bond (
    node_id  BIGINT PRIMARY KEY,
    bond_id  BIGINT NOT NULL,
    space_id BIGINT NOT NULL
);
CREATE INDEX bond_nodes ON bond (space_id, bond_id);

-- Levels of the programs that may serve: src/sql/instances.rs. Those of before bonds say nothing of theirs, and have 0.
CREATE TABLE served_level (
    id BIGINT PRIMARY KEY
);
INSERT INTO served_level (id) VALUES (0), (1);
ALTER TABLE instance ADD COLUMN level BIGINT NOT NULL DEFAULT 0 REFERENCES served_level (id);
