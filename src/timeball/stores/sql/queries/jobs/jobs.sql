-- Jobs: submitting, reading, amending.

-- name: jobs_that_exist
-- Which of these ids are taken: a submission that was sent again.
SELECT id FROM jobs WHERE id {in b: text};

-- name: keys_that_exist
-- What the first request with each of these idempotency keys was answered.
SELECT {columns idempotency i}
FROM {batch b: tenant text, key text} JOIN idempotency i ON i.tenant = b.tenant AND i.key = b.key;

-- name: jobs_by_id
-- Jobs as they are.
SELECT {columns jobs j} FROM {batch b: id text} JOIN jobs j ON j.id = b.id;

-- name: lock_jobs
-- Jobs as they are, kept from every other writer; in the order of their ids, so that nobody waits in a circle.
SELECT {columns jobs j} FROM {batch b: id text} JOIN jobs j ON j.id = b.id {lock j};

-- name: live_of_jobs
-- For each job with live runs: the fire time of the earliest that has not started, if there is one. The fires of a
-- backfill are not what comes next, and the time that the retry of one is for is not when it runs.
SELECT r.job_id, MIN(CASE WHEN r.origin <> {origin.backfill} AND (r.attempt = 0 OR COALESCE(r.due_at, r.fire_time) > {now})
  THEN CASE WHEN r.origin = {origin.retry} THEN COALESCE(r.due_at, r.fire_time) ELSE r.fire_time END END)
FROM {batch b: id text} JOIN runs r ON r.job_id = b.id WHERE r.origin <> {origin.task} GROUP BY r.job_id;

-- name: list_jobs
-- The ids of a page of jobs, newest first; in this list and those below with the sizes of their specs.
SELECT j.id, {size j.spec} FROM jobs j WHERE {where} ORDER BY j.id DESC LIMIT :most;

-- name: list_jobs_by_tag
-- The ids of a page of the jobs with a tag, newest first.
SELECT j.id, {size j.spec} FROM job_tags t CROSS JOIN jobs j
WHERE t.tag = :tag AND t.job_id < :before AND j.id = t.job_id AND {where} ORDER BY t.job_id DESC LIMIT :most;

-- name: list_jobs_with_runs
-- The ids of a page of the jobs that have nothing left to fire but still have a live run, newest first.
SELECT j.id, {size j.spec} FROM (
  SELECT DISTINCT r.job_id FROM runs r JOIN jobs j ON j.id = r.job_id
  WHERE r.job_id < :before AND {where} ORDER BY r.job_id DESC LIMIT :most
) AS alive JOIN jobs j ON j.id = alive.job_id ORDER BY j.id DESC;

-- name: list_idle_followers
-- The ids of a page of the jobs that follow others and have nothing to fire until one of those ends, newest first.
SELECT j.id, {size j.spec} FROM follows f CROSS JOIN jobs j
WHERE f.follower < :before AND j.id = f.follower AND {where} ORDER BY f.follower DESC LIMIT :most;

-- name: crowded_jobs
-- Those of some jobs that have at least so many live runs.
SELECT b.id FROM {batch b: id text}
WHERE (SELECT COUNT(*) FROM (SELECT 1 FROM runs r WHERE r.job_id = b.id LIMIT :most) AS live) = :most;

-- name: runs_that_matter
-- Of the live runs of crowded jobs, those that a change of the job looks at one by one: for instants that have not come,
-- and held back by an earlier one. Of the others one that is due, and one of those that do not look at each other.
SELECT {columns runs r} FROM {batch b: id text} JOIN runs r ON r.job_id = b.id
WHERE r.fire_time > {now} OR (r.holds & {hold.overlap}) = {hold.overlap}
  OR r.id = (SELECT x.id FROM runs x WHERE x.job_id = b.id AND x.fire_time <= {now} LIMIT 1)
  OR r.id = (SELECT x.id FROM runs x WHERE x.job_id = b.id AND x.fire_time <= {now} AND x.serial = 0 LIMIT 1)
{lock r};

-- name: runs_of_jobs
-- The live runs of jobs, kept from every other writer.
SELECT {columns runs r} FROM {batch b: id text} JOIN runs r ON r.job_id = b.id {lock r};

-- name: future_verdicts
-- Instants of jobs that have not come but whose verdict is known already: somebody cancelled them.
SELECT h.job_id, h.fire_time FROM {batch b: id text} JOIN history h ON h.job_id = b.id
WHERE h.fire_time > {now} AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: write_jobs
-- The new values of amended jobs.
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
-- Forget the tags of jobs whose tags change.
DELETE FROM job_tags WHERE job_id IN (SELECT id FROM {batch b: id text});

-- name: keep_specs
-- Let live runs keep the spec they fell due with, when their job gets another.
UPDATE runs SET spec = b.spec, task_id = b.task_id
FROM {batch b: job_id text, spec text, task_id text} WHERE runs.job_id = b.job_id AND runs.spec IS NULL;
