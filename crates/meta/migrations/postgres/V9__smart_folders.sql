-- Saved searches, and tags that an upload brings with it: see src/sql/searches.rs and src/sql/resumable.rs.

-- What an account looks for again and again, shown as a folder.
CREATE TABLE saved_search (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    name       TEXT COLLATE "C" NOT NULL,
    words      TEXT COLLATE "C" NOT NULL,
    space      TEXT COLLATE "C",          -- only in what the account calls this
    kind       BIGINT,                    -- as in node
    media      TEXT COLLATE "C",          -- type of files
    min_bytes  BIGINT,
    max_bytes  BIGINT,
    after_ms   BIGINT,
    before_ms  BIGINT,
    tags       TEXT COLLATE "C" NOT NULL, -- one a line
    folder_id  BIGINT,                    -- where goes what is put into it: none is the home; outlives the node
    created_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    UNIQUE (account_id, name)
);

-- Tags that the file of a resumable upload gets with its content; apart, since few have any.
CREATE TABLE resumable_tags (
    content_id BIGINT PRIMARY KEY,
    tags       TEXT COLLATE "C" NOT NULL -- one a line
);
