-- The slots of jobs in their windows. Whoever chooses some locks the row of minute -1 before any job; what they add to the
-- loads of minutes is written last.

-- name: lock_slots
-- Keep everybody else from choosing slots.
INSERT INTO slot_loads (minute, jobs) VALUES (-1, 1)
ON CONFLICT (minute) DO UPDATE SET jobs = slot_loads.jobs + 1;

-- name: slot_loads
-- How many jobs have a slot in each minute of the day.
SELECT minute, jobs FROM slot_loads WHERE minute >= 0;

-- name: other_fires
-- The next fires of jobs without a slot in a range of time, as far as they are counted, by the minute.
SELECT f.minute, COUNT(*) FROM (
  SELECT (j.plan_at + :horizon) / 60000000 % 1440 AS minute FROM jobs j
  WHERE j.state = {job.active} AND j.plan_at IS NOT NULL AND j.plan_at >= :since AND j.plan_at < :until AND j.slot IS NULL
  ORDER BY j.plan_at LIMIT :most
) AS f GROUP BY f.minute;

-- name: add_slots
-- Add jobs to the loads of minutes, or take them away.
INSERT INTO slot_loads (minute, jobs)
SELECT b.minute, b.jobs FROM {batch b: minute bigint, jobs bigint} WHERE true ORDER BY b.minute
ON CONFLICT (minute) DO UPDATE SET jobs = {greatest}(0, slot_loads.jobs + excluded.jobs);
