-- Jobs: submit, read, amend.

-- name: jobs_that_exist
-- The given job ids that exist already, because their submissions were sent twice.
SELECT id FROM jobs WHERE id {in b: text};

-- name: keys_that_exist
-- The stored answers to the first request with each of these idempotency keys.
SELECT {columns idempotency i}
FROM {batch b: tenant text, key text} JOIN idempotency i ON i.tenant = b.tenant AND i.key = b.key;

-- name: jobs_by_id
-- Jobs by id.
SELECT {columns jobs j} FROM {batch b: id text} JOIN jobs j ON j.id = b.id;

-- name: lock_jobs
-- Lock and return jobs. Locks are taken in the order of the ids, which avoids deadlocks.
SELECT {columns jobs j} FROM {batch b: id text} JOIN jobs j ON j.id = b.id {lock j};

-- name: live_of_jobs
-- For each job with live runs: the fire time of the earliest run that has not started, if there is one. Runs of
-- backfills do not count. A manual retry counts with the time at which it is due, not with the fire that it repeats.
SELECT r.job_id, MIN(CASE WHEN r.origin <> {origin.backfill} AND (r.attempt = 0 OR COALESCE(r.due_at, r.fire_time) > {now})
  THEN CASE WHEN r.origin = {origin.retry} THEN COALESCE(r.due_at, r.fire_time) ELSE r.fire_time END END)
FROM {batch b: id text} JOIN runs r ON r.job_id = b.id WHERE r.origin <> {origin.task} GROUP BY r.job_id;

-- name: jobs_with_many_runs
-- The given jobs that have at least :limit live runs.
SELECT b.id FROM {batch b: id text}
WHERE (SELECT COUNT(*) FROM (SELECT 1 FROM runs r WHERE r.job_id = b.id LIMIT :limit) AS live) = :limit;

-- name: runs_to_amend
-- Lock and return the live runs of jobs with many of them that an amendment treats one by one: runs with a future fire,
-- and runs blocked by the overlap rule. Of the others it returns one that is due, and one that is due and is not marked
-- as serial (a serial run ends under the lock on its job).
SELECT {columns runs r} FROM {batch b: id text} JOIN runs r ON r.job_id = b.id
WHERE r.fire_time > {now} OR (r.holds & {hold.overlap}) = {hold.overlap}
  OR r.id = (SELECT x.id FROM runs x WHERE x.job_id = b.id AND x.fire_time <= {now} LIMIT 1)
  OR r.id = (SELECT x.id FROM runs x WHERE x.job_id = b.id AND x.fire_time <= {now} AND x.serial = 0 LIMIT 1)
{lock r};

-- name: runs_of_jobs
-- Lock and return the live runs of jobs.
SELECT {columns runs r} FROM {batch b: id text} JOIN runs r ON r.job_id = b.id {lock r};

-- name: future_verdicts
-- Future fires of jobs that have a verdict already: they were cancelled, or executed while the clock was ahead.
SELECT h.job_id, h.fire_time FROM {batch b: id text} JOIN history h ON h.job_id = b.id
WHERE h.fire_time > {now} AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: write_jobs
-- Write amended jobs.
UPDATE jobs SET
  name = b.name, spec = b.spec, task_id = b.task_id, user_id = b.user_id, version = b.version, state = b.state,
  anchor = b.anchor, next_fire_at = b.next_fire_at, plan_at = b.plan_at, updated_at = b.updated_at,
  pause_reason = b.pause_reason, last_span = b.last_span, fired = b.fired, paused_until = b.paused_until,
  owed = b.owed, slot = b.slot
FROM {batch b: id text, name text, spec text, task_id text, user_id text, version bigint, state text,
  anchor bigint, next_fire_at bigint, plan_at bigint, updated_at bigint, pause_reason text, last_span text,
  fired bigint, paused_until bigint, owed bigint, slot bigint}
WHERE jobs.id = b.id;

-- name: drop_tags
-- Delete the tags of jobs.
DELETE FROM job_tags WHERE job_id IN (SELECT id FROM {batch b: id text});

-- name: keep_specs
-- Copy the old spec of a job into its live runs when the job gets a new one.
UPDATE runs SET spec = b.spec, task_id = b.task_id
FROM {batch b: job_id text, spec text, task_id text} WHERE runs.job_id = b.job_id AND runs.spec IS NULL;
