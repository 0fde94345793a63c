-- Until when the old versions of a space were thinned out; null where each is kept, as in every space of before. See src/sql/thin.rs.
ALTER TABLE space_sum ADD COLUMN thinned_ms INTEGER;
PRAGMA user_version = 17;
