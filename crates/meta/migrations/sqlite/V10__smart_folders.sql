-- Saved searches, and tags that an upload brings with it: see src/sql/searches.rs and src/sql/resumable.rs.

-- What an account looks for again and again, shown as a folder.
CREATE TABLE saved_search (
    id         INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    words      TEXT NOT NULL,
    space      TEXT,          -- only in what the account calls this
    kind       INTEGER,       -- as in node
    media      TEXT,          -- type of files
    min_bytes  INTEGER,
    max_bytes  INTEGER,
    after_ms   INTEGER,
    before_ms  INTEGER,
    tags       TEXT NOT NULL, -- one a line
    folder_id  INTEGER,       -- where goes what is put into it: none is the home; outlives the node, which may come back from the trash
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    sum        INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, tags, folder_id,
                 created_ms, changed_ms)) STORED,
    UNIQUE (account_id, name)
);

-- Tags that the file of a resumable upload gets with its content; apart, since few have any.
CREATE TABLE resumable_tags (
    content_id INTEGER PRIMARY KEY,
    tags       TEXT NOT NULL, -- one a line
    sum        INTEGER NOT NULL GENERATED ALWAYS AS (row_sum(content_id, tags)) STORED
);
PRAGMA user_version = 10;
