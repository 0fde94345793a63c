-- What a mounted drive keeps beside a node: src/sql/posix.rs.

-- A node without a row has the attributes its mount gives to what came another way. kind: 0 as the node's own, 1 a symbolic link, whose
-- target is the file's content, 2 a FIFO, 3 a socket, 4 a character and 5 a block device. mtime_ns holds while the node's
-- modified_ms is that time in milliseconds; ctime_ns likewise.
CREATE TABLE posix (
    node_id  BIGINT PRIMARY KEY,
    kind     BIGINT NOT NULL CHECK (kind BETWEEN 0 AND 5),
    mode     BIGINT NOT NULL CHECK (mode BETWEEN 0 AND 4095),
    uid      BIGINT NOT NULL CHECK (uid >= 0),
    gid      BIGINT NOT NULL CHECK (gid >= 0),
    rdev     BIGINT NOT NULL CHECK (rdev >= 0),
    atime_ns BIGINT NOT NULL,
    mtime_ns BIGINT NOT NULL,
    ctime_ns BIGINT NOT NULL,
    xattrs   BIGINT NOT NULL CHECK (xattrs >= 0) -- rows in xattr
);

-- Extended attributes.
CREATE TABLE xattr (
    node_id BIGINT NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    value   BYTEA NOT NULL,
    PRIMARY KEY (node_id, name)
);

-- Nodes in the trash that somebody still has open: they stay until then. forget: nobody is to find them there afterwards.
CREATE TABLE held (
    node_id  BIGINT PRIMARY KEY,
    until_ms BIGINT NOT NULL,
    forget   BIGINT NOT NULL
);
