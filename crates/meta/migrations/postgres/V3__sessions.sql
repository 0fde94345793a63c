-- Sessions of browsers are slots, too: a new kind, of which an account has several, found by lookup as app tokens are.
-- A kind either is found by its lookup, or an account has one of it at most.

ALTER TABLE slot DROP CONSTRAINT slot_kind_check;
ALTER TABLE slot ADD CONSTRAINT slot_kind_check CHECK (kind BETWEEN 0 AND 4);
DROP INDEX slot_lookup;
DROP INDEX slot_single;
CREATE UNIQUE INDEX slot_lookup ON slot (lookup, kind) WHERE lookup <> '';
CREATE UNIQUE INDEX slot_single ON slot (account_id, kind) WHERE lookup = '';
