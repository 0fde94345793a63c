-- What a mounted drive keeps beside a node: src/sql/posix.rs.

-- A node without a row has the attributes its mount gives to what came another way. kind: 0 as the node's own, 1 a symbolic link, whose
-- target is the file's content, 2 a FIFO, 3 a socket, 4 a character and 5 a block device. mtime_ns holds while the node's
-- modified_ms is that time in milliseconds; ctime_ns likewise.
CREATE TABLE posix (
    node_id  INTEGER PRIMARY KEY,
    kind     INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 5),
    mode     INTEGER NOT NULL CHECK (mode BETWEEN 0 AND 4095),
    uid      INTEGER NOT NULL CHECK (uid >= 0),
    gid      INTEGER NOT NULL CHECK (gid >= 0),
    rdev     INTEGER NOT NULL CHECK (rdev >= 0),
    atime_ns INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    xattrs   INTEGER NOT NULL CHECK (xattrs >= 0), -- rows in xattr
    sum      INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(node_id, kind, mode, uid, gid, rdev, atime_ns, mtime_ns, ctime_ns, xattrs)) STORED
);

-- Extended attributes.
CREATE TABLE xattr (
    node_id INTEGER NOT NULL,
    name    TEXT NOT NULL,
    value   BLOB NOT NULL,
    sum     INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(node_id, name, value)) STORED,
    PRIMARY KEY (node_id, name)
) WITHOUT ROWID;

-- Nodes in the trash that somebody still has open: they stay until then. forget: nobody is to find them there afterwards.
CREATE TABLE held (
    node_id  INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL,
    forget   INTEGER NOT NULL
);
PRAGMA user_version = 11;
