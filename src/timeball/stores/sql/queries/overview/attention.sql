-- What needs attention. Each statement reads a bounded number of rows.

-- name: dead_of_jobs
-- At most :limit dead letters, by job: their number, the newest one, and when the first one ended.
SELECT d.job_id, j.name, d.letters, d.newest, d.since FROM (
  SELECT h.job_id, COUNT(*) AS letters, MAX(h.id) AS newest, MIN(h.finished_at) AS since FROM (
    SELECT h.id, h.job_id, h.finished_at FROM history h
    WHERE h.tenant = :tenant AND h.status = {status.dead} AND h.retried_as IS NULL AND h.discarded_at IS NULL LIMIT :limit
  ) AS h GROUP BY h.job_id
) AS d LEFT JOIN jobs j ON j.id = d.job_id;

-- name: count_dead
-- The number of dead letters, at most :limit.
SELECT COUNT(*) FROM (SELECT 1 FROM history h
  WHERE h.tenant = :tenant AND h.status = {status.dead} AND h.retried_as IS NULL AND h.discarded_at IS NULL LIMIT :limit
) AS dead;

-- name: newest_failures
-- The jobs of the newest runs that ended with a given status of failure, and the newest fire of each among these.
SELECT h.job_id, MAX(h.fire_time) FROM (
  SELECT h.job_id, h.fire_time FROM history h
  WHERE h.tenant = :tenant AND h.status = {failed} AND h.status <> {status.succeeded} AND h.fire_time >= :since
    AND {days h.id >= :made_from AND h.id < :made_until}
  ORDER BY h.fire_time DESC, h.id DESC LIMIT :limit
) AS h GROUP BY h.job_id;

-- name: last_ends
-- The newest finished runs of jobs that are not cancelled.
SELECT r.job_id, j.name, r.id, r.status, r.finished_at FROM {batch b: id text} JOIN jobs j ON j.id = b.id {firsts history r} (
  SELECT {of_firsts} FROM history r WHERE r.job_id = b.id AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} WHERE j.state <> {job.cancelled} ORDER BY r.job_id, r.fire_time DESC, r.id DESC;

-- name: overdue_runs
-- Runs without an attempt that could have been claimed before an instant, among the first :limit ready runs that fired
-- before it, counted by job and placement profile.
SELECT w.job_id, j.name, w.profile, COUNT(*), MIN(w.id), MIN(w.eligible_at) FROM (
  SELECT r.id, r.job_id, r.profile, r.attempt, r.eligible_at FROM runs r
  WHERE r.tenant = :tenant AND r.state = {state.ready} AND r.state <> {state.running} AND r.fire_time < :before
  ORDER BY r.fire_time, r.id LIMIT :limit
) AS w JOIN jobs j ON j.id = w.job_id WHERE w.attempt = 0 AND w.eligible_at < :before
GROUP BY w.job_id, j.name, w.profile;

-- name: runs_of_profiles
-- Runs of given placement profiles, without an attempt, that could have been claimed before an instant, counted by job
-- and profile.
SELECT r.job_id, j.name, r.profile, COUNT(*), MIN(r.id), MIN(r.eligible_at) FROM {batch b: profile text} {firsts runs r} (
  SELECT {of_firsts} FROM runs r WHERE r.state = {state.ready} AND r.profile = b.profile AND r.eligible_at < :before
  ORDER BY r.eligible_at LIMIT :limit
) {firsts_end} JOIN jobs j ON j.id = r.job_id WHERE r.tenant = :tenant AND r.attempt = 0
GROUP BY r.job_id, j.name, r.profile;

-- name: functions_of_jobs
-- The Python functions that jobs call.
SELECT j.id, COALESCE({text_of j.spec: task.function},
  (SELECT {text_of t.spec: function} FROM tasks t WHERE t.tenant = j.tenant AND t.id = j.task_id))
FROM {batch b: id text} {each jobs j: b.id};

-- name: lost_workers
-- The last :limit sessions whose lease ran out, except those of workers whose name has a valid lease again. A worker
-- that says goodbye ends its lease before it runs out.
SELECT l.name, l.seen_at, l.labels, l.dedicated FROM (
  SELECT w.name, w.seen_at, w.lease_until, w.labels, w.dedicated FROM workers w
  WHERE w.lapsed = {lease.lapsed} AND w.lease_until > :since AND w.lease_until - w.seen_at >= :lease
  ORDER BY w.lease_until DESC LIMIT :limit
) AS l WHERE NOT EXISTS (
  SELECT 1 FROM workers w WHERE w.name = l.name AND w.lapsed = {lease.held} AND w.lease_until > {now}
) ORDER BY l.lease_until DESC;

-- name: paused_jobs
-- Paused jobs, newest first.
SELECT j.id, j.name, j.pause_reason, j.updated_at, j.paused_until FROM jobs j
WHERE j.tenant = :tenant AND j.state = {job.paused} AND j.state <> {job.active} ORDER BY j.id DESC LIMIT :limit;
