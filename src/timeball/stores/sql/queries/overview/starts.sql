-- Starts of runs for lateness objectives. Each statement reads a bounded number of rows.

-- name: count_starts
-- The finished runs and missed fires of jobs in ranges of time that had to start, how many of them were late, and how
-- many rows were read: the newest :limit of each range.
SELECT b.id, b.place,
  SUM(CASE WHEN r.verdict = {verdict.missed} OR r.started_at IS NOT NULL
    OR (r.eligible_at IS NOT NULL AND r.finished_at - COALESCE(r.due_at, r.fire_time) > b.within) THEN r.fires ELSE 0 END),
  SUM(CASE WHEN r.verdict = {verdict.missed}
    OR (r.eligible_at IS NOT NULL AND COALESCE(r.started_at, r.finished_at) - COALESCE(r.due_at, r.fire_time) > b.within)
    THEN r.fires ELSE 0 END),
  COUNT(*)
FROM {batch b: id text, place bigint, since bigint, until bigint, within bigint} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND r.fire_time >= b.since AND r.fire_time < b.until AND r.origin <> {origin.backfill}
    AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} GROUP BY b.id, b.place;

-- name: overdue_starts
-- The number of runs of each job that have not started and are late already, at most :limit.
SELECT b.id, COUNT(*) FROM {batch b: id text, before bigint} {firsts runs r} (
  SELECT {of_firsts} FROM runs r
  WHERE r.job_id = b.id AND r.fire_time < b.before AND r.state <> {state.running} AND r.attempt = 0
    AND COALESCE(r.due_at, r.fire_time) < b.before AND r.origin <> {origin.backfill}
  ORDER BY r.fire_time, r.id LIMIT :limit
) {firsts_end} GROUP BY b.id;
