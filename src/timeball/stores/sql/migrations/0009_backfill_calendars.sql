-- The calendars that the job of a backfill had when the backfill was created.
-- works with: 5
ALTER TABLE backfills ADD COLUMN calendars TEXT NOT NULL DEFAULT '[]';
