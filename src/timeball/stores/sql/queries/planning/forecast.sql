-- Input of the forecast: jobs that will fire, and how long their runs take.

-- name: firing_jobs
-- The ids of a page of jobs that will fire, oldest first, with the sizes of their specs.
SELECT j.id, {size j.spec} FROM jobs j
WHERE j.tenant = :tenant AND j.id > :after AND j.state = {job.active} AND j.next_fire_at IS NOT NULL ORDER BY j.id LIMIT :limit;

-- name: recent_durations
-- The durations of the newest successful runs of jobs, among runs whose id is at least :since.
SELECT b.id, r.finished_at - r.attempt_started_at FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND r.id >= :since AND r.status = {status.succeeded} ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} WHERE r.attempt_started_at IS NOT NULL;
