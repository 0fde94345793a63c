-- Saved searches for what was changed lately: see src/sql/searches.rs.
ALTER TABLE saved_search ADD COLUMN within_days BIGINT; -- modified in the last so many days, whenever one looks
