-- The slot in its window that a backfill's job had when it was asked for.
-- works with: 5
ALTER TABLE backfills ADD COLUMN slot BIGINT;
