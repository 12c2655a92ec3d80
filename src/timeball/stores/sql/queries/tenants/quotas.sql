-- Quotas of tenants: jobs that may fire, runs that begin in a day, and stored bytes.

-- name: lock_quota_use
-- Lock and return what tenants use of their quotas.
SELECT {columns quota_use q} FROM {batch b: tenant text} JOIN quota_use q ON q.tenant = b.tenant ORDER BY q.tenant {keep q};

-- name: write_quota_use
-- Store the numbers of runs that begin on each day.
UPDATE quota_use SET runs_of_days = b.runs_of_days FROM {batch b: tenant text, runs_of_days text}
WHERE quota_use.tenant = b.tenant;

-- name: add_stored_bytes
-- Count bytes that were stored.
UPDATE quota_use SET stored_bytes = quota_use.stored_bytes + b.bytes FROM {batch b: tenant text, bytes bigint}
WHERE quota_use.tenant = b.tenant;

-- name: read_quota_use
-- What a tenant uses of its quotas.
SELECT {columns quota_use q} FROM quota_use q WHERE q.tenant = :tenant;

-- name: count_jobs_that_may_fire
-- The number of jobs of a tenant that may still fire: the sum of active jobs, paused jobs, and jobs that follow another
-- one, each counted up to :most.
SELECT
  (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j
    WHERE j.tenant = :tenant AND j.state = {job.active} AND j.next_fire_at IS NOT NULL LIMIT :most) AS a)
  + (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j
    WHERE j.tenant = :tenant AND j.state = {job.paused} AND j.state <> {job.active} AND j.next_fire_at IS NOT NULL
    LIMIT :most) AS p)
  + (SELECT COUNT(*) FROM (SELECT 1 FROM follows f CROSS JOIN jobs j
    WHERE j.id = f.follower AND j.tenant = :tenant AND j.state <> {job.cancelled} AND j.next_fire_at IS NULL
    LIMIT :most) AS f);
