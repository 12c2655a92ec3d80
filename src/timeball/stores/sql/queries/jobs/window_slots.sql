-- The minutes that jobs with a window fire at. A transaction that chooses slots locks the row of minute -1 before any
-- job. It writes the changed loads of the minutes last.

-- name: lock_slots
-- Lock the choice of slots against other transactions.
INSERT INTO slot_loads (minute, jobs) VALUES (-1, 1)
ON CONFLICT (minute) DO UPDATE SET jobs = slot_loads.jobs + 1;

-- name: slot_loads
-- The number of jobs with a slot in each minute of the day.
SELECT minute, jobs FROM slot_loads WHERE minute >= 0;

-- name: other_fires
-- The number of next fires of jobs without a slot in a range of time, by minute of the day. Counts at most :limit fires.
SELECT f.minute, COUNT(*) FROM (
  SELECT (j.plan_at + :horizon) / 60000000 % 1440 AS minute FROM jobs j
  WHERE j.state = {job.active} AND j.plan_at IS NOT NULL AND j.plan_at >= :since AND j.plan_at < :until AND j.slot IS NULL
  ORDER BY j.plan_at LIMIT :limit
) AS f GROUP BY f.minute;

-- name: add_slots
-- Add a number of jobs, which may be negative, to the loads of minutes.
INSERT INTO slot_loads (minute, jobs)
SELECT b.minute, b.jobs FROM {batch b: minute bigint, jobs bigint} WHERE true ORDER BY b.minute
ON CONFLICT (minute) DO UPDATE SET jobs = {greatest}(0, slot_loads.jobs + excluded.jobs);
