-- Saved searches for what was changed lately: see src/sql/searches.rs. A column that the row's sum is over needs the table made anew.
CREATE TABLE saved_search_with_days (
    id          INTEGER PRIMARY KEY,
    account_id  INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    words       TEXT NOT NULL,
    space       TEXT,          -- only in what the account calls this
    kind        INTEGER,       -- as in node
    media       TEXT,          -- type of files
    min_bytes   INTEGER,
    max_bytes   INTEGER,
    after_ms    INTEGER,
    before_ms   INTEGER,
    within_days INTEGER,       -- modified in the last so many days, whenever one looks
    tags        TEXT NOT NULL, -- one a line
    folder_id   INTEGER,       -- where goes what is put into it: none is the home; outlives the node, which may come back from the trash
    created_ms  INTEGER NOT NULL,
    changed_ms  INTEGER NOT NULL,
    sum         INTEGER NOT NULL GENERATED ALWAYS AS
        (row_sum(id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, within_days, tags,
                 folder_id, created_ms, changed_ms)) STORED,
    UNIQUE (account_id, name)
);
INSERT INTO saved_search_with_days
    (id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, within_days, tags, folder_id,
     created_ms, changed_ms)
    SELECT id, account_id, name, words, space, kind, media, min_bytes, max_bytes, after_ms, before_ms, NULL, tags, folder_id,
           created_ms, changed_ms FROM saved_search;
DROP TABLE saved_search;
ALTER TABLE saved_search_with_days RENAME TO saved_search;
PRAGMA user_version = 13;
