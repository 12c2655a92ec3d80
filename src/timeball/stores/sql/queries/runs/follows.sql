-- Jobs that follow other jobs: who follows whom, and what they have heard of.

-- name: echo_ends
-- Tell the followers of jobs of runs that ended, if they want to know.
INSERT INTO echoes (follower, cause, job_id, status, ended_at)
SELECT f.follower, b.run_id, b.job_id, b.status, {now}
FROM {batch b: run_id text, job_id text, status text} JOIN follows f ON f.job_id = b.job_id
WHERE CASE WHEN b.status = {status.succeeded} THEN f.on_success ELSE f.on_failure END = 1
RETURNING cause;

-- name: unheard_followers
-- Some jobs that have not heard of an end, behind one of them.
SELECT DISTINCT follower FROM echoes WHERE fire_time IS NULL AND follower > :after ORDER BY follower LIMIT :most;

-- name: unheard_echoes
-- What jobs, which are locked, have not heard of, in the order in which it happened.
SELECT {columns echoes e} FROM {batch b: id text} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NULL ORDER BY e.ended_at, e.cause;

-- name: follows_by_id
-- What jobs follow.
SELECT {columns follows f} FROM {batch b: id text} JOIN follows f ON f.follower = b.id;

-- name: hear_echoes
-- Give ends their instants.
UPDATE echoes SET fire_time = b.at FROM {batch b: follower text, cause text, at bigint}
WHERE echoes.follower = b.follower AND echoes.cause = b.cause;

-- name: drop_echoes
-- Forget ends that mean nothing to their followers any more.
DELETE FROM echoes WHERE (follower, cause) IN (SELECT follower, cause FROM {batch b: follower text, cause text});

-- name: note_last
-- The newest instants of jobs that follow others.
UPDATE follows SET last_at = b.at FROM {batch b: follower text, at bigint}
WHERE follows.follower = b.follower AND follows.last_at < b.at;

-- name: hear_jobs
-- What comes next of jobs, whose rows are locked, that heard of an end.
UPDATE jobs SET next_fire_at = b.next_fire_at, plan_at = b.plan_at
FROM {batch b: id text, next_fire_at bigint, plan_at bigint} WHERE jobs.id = b.id;

-- name: waiting_echoes
-- The first instants of jobs that wait to be planned, in order.
SELECT w.follower, w.fire_time FROM (
  SELECT e.follower, e.fire_time, row_number() OVER (PARTITION BY e.follower ORDER BY e.fire_time) AS place
  FROM {batch b: id text} JOIN echoes e ON e.follower = b.id WHERE e.fire_time IS NOT NULL
) AS w WHERE w.place <= :most ORDER BY w.follower, w.fire_time;

-- name: sum_of_echoes
-- How many instants of jobs wait, from when to when.
SELECT e.follower, COUNT(*), MIN(e.fire_time), MAX(e.fire_time)
FROM {batch b: id text, after bigint} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NOT NULL AND e.fire_time > b.after GROUP BY e.follower;

-- name: causes
-- The runs whose ends the instants of jobs are, up to one.
SELECT e.follower, e.fire_time, e.cause FROM {batch b: id text, until bigint} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NOT NULL AND e.fire_time <= b.until;

-- name: use_echoes
-- Forget the ends up to an instant, which are planned, but for one that a fire is owed for.
DELETE FROM echoes WHERE (follower, cause) IN (
  SELECT e.follower, e.cause FROM {batch b: id text, until bigint, owed bigint} JOIN echoes e ON e.follower = b.id
  WHERE e.fire_time IS NOT NULL AND e.fire_time <= b.until AND NOT (e.fire_time {same} b.owed)
);

-- name: silence
-- Forget all ends that jobs have heard of, or have not.
DELETE FROM echoes WHERE follower {in b: text};

-- name: unfollow
-- These jobs follow nobody any more.
DELETE FROM follows WHERE follower {in b: text};

-- name: follow
-- What jobs follow, from now on.
INSERT INTO follows (follower, job_id, on_success, on_failure, last_at)
SELECT b.follower, b.job_id, b.on_success, b.on_failure, b.last_at
FROM {batch b: follower text, job_id text, on_success bigint, on_failure bigint, last_at bigint} WHERE true
ON CONFLICT (follower) DO UPDATE
SET job_id = excluded.job_id, on_success = excluded.on_success, on_failure = excluded.on_failure;

-- name: lock_follows
-- Keep everybody else from changing whom jobs follow. Taken before any job is.
INSERT INTO meta (name, value) VALUES ('follows', 1) ON CONFLICT (name) DO UPDATE SET value = meta.value + 1;

-- name: chain
-- A job, whom it follows, whom that one follows, and so on, with their names.
WITH RECURSIVE up (id, place) AS (
  SELECT j.id, 0 FROM jobs j WHERE j.id = :job_id
  UNION ALL SELECT f.job_id, up.place + 1 FROM up JOIN follows f ON f.follower = up.id WHERE up.place < :most
)
SELECT up.id, j.name FROM up LEFT JOIN jobs j ON j.id = up.id ORDER BY up.place;
