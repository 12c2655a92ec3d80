-- The calendars that a backfill's job had when it was asked for.
-- works with: 5
ALTER TABLE backfills ADD COLUMN calendars TEXT NOT NULL DEFAULT '[]';
