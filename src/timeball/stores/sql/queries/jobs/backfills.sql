-- Backfills: requests to run the fires of a past range. Every change of a backfill or of its runs, except a claim, is
-- made under the lock on the job.

-- name: backfills_to_advance
-- Active backfills that may get another run (their job is active, and they have fewer live runs than their
-- parallelism), or that have no fire left and no live run.
SELECT b.id FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.state = {backfill.active} AND b.id > :after AND CASE WHEN b.cursor_at IS NULL
  THEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill})
  ELSE j.state = {job.active} AND b.parallelism > (
    SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}
  ) END
ORDER BY b.id LIMIT :limit;

-- name: jobs_of_backfills
-- The jobs to lock before these backfills.
SELECT DISTINCT b.job_id FROM {batch i: id text} JOIN backfills b ON b.id = i.id;

-- name: lock_backfills
-- Backfills, and how many live runs each has. The jobs are locked.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill})
FROM {batch i: id text} JOIN backfills b ON b.id = i.id ORDER BY b.id;

-- name: move_backfills
-- Write the progress of backfills. The jobs are locked.
UPDATE backfills SET cursor_at = i.cursor_at, made = backfills.made + i.made, state = i.state,
  finished_at = CASE WHEN i.state = {backfill.active} THEN NULL ELSE {now} END
FROM {batch i: id text, cursor_at bigint, made bigint, state text} WHERE backfills.id = i.id;

-- name: count_ended
-- Count runs of backfills that failed or were cancelled. The jobs are locked.
UPDATE backfills SET failed = backfills.failed + i.failed, cancelled = backfills.cancelled + i.cancelled
FROM {batch i: id text, failed bigint, cancelled bigint} WHERE backfills.id = i.id;

-- name: live_of_backfill
-- The live runs of a backfill.
SELECT r.id FROM runs r WHERE r.retry_of = :id AND r.origin = {origin.backfill} ORDER BY r.id;

-- name: cancel_backfill
-- End a backfill: it is complete if all its runs were made and have ended, and cancelled otherwise. Its job is locked.
UPDATE backfills SET state = over.state, reason = CASE WHEN over.state = {backfill.cancelled} THEN :reason ELSE '' END,
  finished_at = {now}
FROM (
  SELECT CASE WHEN b.cursor_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}
  ) THEN {backfill.completed} ELSE {backfill.cancelled} END AS state FROM backfills b WHERE b.id = :id
) AS over
WHERE backfills.id = :id AND backfills.state = {backfill.active} RETURNING backfills.id;

-- name: end_backfills
-- Cancel all active backfills of jobs. The jobs are locked.
UPDATE backfills SET state = {backfill.cancelled}, reason = :reason, finished_at = {now}
WHERE state = {backfill.active} AND job_id IN (SELECT id FROM {batch b: id text});

-- name: backfills
-- Backfills with their numbers of live runs. One statement, so that all counts are of the same moment.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM {batch i: id text} JOIN backfills b ON b.id = i.id JOIN jobs j ON j.id = b.job_id;

-- name: list_backfills
-- A page of the backfills of a tenant, newest first.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.tenant = :tenant AND b.id < :before ORDER BY b.id DESC LIMIT :limit;

-- name: list_backfills_of_job
-- A page of the backfills of a job, newest first.
SELECT {columns backfills b}, (SELECT COUNT(*) FROM runs r WHERE r.retry_of = b.id AND r.origin = {origin.backfill}),
  j.name, j.state
FROM backfills b JOIN jobs j ON j.id = b.job_id
WHERE b.job_id = :job_id AND b.tenant = :tenant AND b.id < :before ORDER BY b.id DESC LIMIT :limit;
