-- Backfills: which may have more runs, and how far each is. Whatever happens to one, or to its runs but that they are
-- claimed, happens under the lock on its job.

-- name: backfills_to_advance
-- Backfills that have room for another run, or whose last one ended.
SELECT b.id FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.state = {backfill.active} AND b.id > :after AND CASE WHEN b.cursor_at IS NULL
  THEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill})
  ELSE j.state = {job.active} AND b.parallelism > (
    SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}
  ) END
ORDER BY b.id LIMIT :most;

-- name: jobs_of_backfills
-- The jobs to lock before these backfills.
SELECT DISTINCT b.job_id FROM {batch i: id text} JOIN backfills b ON b.id = i.id;

-- name: lock_backfills
-- Backfills with how many runs of each are alive. The jobs are locked.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill})
FROM {batch i: id text} JOIN backfills b ON b.id = i.id ORDER BY b.id;

-- name: move_backfills
-- What became of backfills. The jobs are locked.
UPDATE backfills SET cursor_at = i.cursor_at, made = backfills.made + i.made, state = i.state,
  finished_at = CASE WHEN i.state = {backfill.active} THEN NULL ELSE {now} END
FROM {batch i: id text, cursor_at bigint, made bigint, state text} WHERE backfills.id = i.id;

-- name: count_ended
-- Runs of backfills ended otherwise than by a success. The jobs are locked.
UPDATE backfills SET failed = backfills.failed + i.failed, cancelled = backfills.cancelled + i.cancelled
FROM {batch i: id text, failed bigint, cancelled bigint} WHERE backfills.id = i.id;

-- name: live_of_backfill
-- The runs of a backfill that are alive.
SELECT r.id FROM runs r WHERE r.retry_of = :id AND r.origin = {origin.backfill} ORDER BY r.id;

-- name: cancel_backfill
-- Let a backfill make no more runs; one all of whose runs have ended is complete. Its job is locked.
UPDATE backfills SET state = over.state, reason = CASE WHEN over.state = {backfill.cancelled} THEN :reason ELSE '' END,
  finished_at = {now}
FROM (
  SELECT CASE WHEN b.cursor_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}
  ) THEN {backfill.completed} ELSE {backfill.cancelled} END AS state FROM backfills b WHERE b.id = :id
) AS over
WHERE backfills.id = :id AND backfills.state = {backfill.active} RETURNING backfills.id;

-- name: end_backfills
-- The same for all backfills of jobs, which are locked.
UPDATE backfills SET state = {backfill.cancelled}, reason = :reason, finished_at = {now}
WHERE state = {backfill.active} AND job_id IN (SELECT id FROM {batch b: id text});

-- name: backfills
-- Backfills and how far they are; one statement, so that everything in it adds up.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM {batch i: id text} JOIN backfills b ON b.id = i.id JOIN jobs j ON j.id = b.job_id;

-- name: list_backfills
-- A page of a tenant's backfills, newest first.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.tenant = :tenant AND b.id < :before ORDER BY b.id DESC LIMIT :most;

-- name: list_backfills_of_job
-- A page of a job's backfills, newest first.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.job_id = :job_id AND b.tenant = :tenant AND b.id < :before ORDER BY b.id DESC LIMIT :most;
