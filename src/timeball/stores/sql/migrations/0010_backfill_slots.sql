-- The slot in its window that the job of a backfill had when the backfill was created.
-- works with: 5
ALTER TABLE backfills ADD COLUMN slot BIGINT;
