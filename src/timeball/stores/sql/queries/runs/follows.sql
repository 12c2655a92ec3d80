-- Jobs that follow other jobs (table `follows`) and the upstream events stored for them (table `echoes`).

-- name: insert_upstream_events
-- Store one upstream event for each job that follows the job of a run that ended, if its rule covers that status.
INSERT INTO echoes (follower, cause, job_id, status, ended_at)
SELECT f.follower, b.run_id, b.job_id, b.status, {now}
FROM {batch b: run_id text, job_id text, status text} JOIN follows f ON f.job_id = b.job_id
WHERE CASE WHEN b.status = {status.succeeded} THEN f.on_success ELSE f.on_failure END = 1
RETURNING cause;

-- name: followers_with_new_events
-- A page of jobs that have upstream events without a fire time, in the order of their ids, after a given id.
SELECT DISTINCT follower FROM echoes WHERE fire_time IS NULL AND follower > :after ORDER BY follower LIMIT :limit;

-- name: new_upstream_events
-- The upstream events of jobs that have no fire time yet, in the order in which the runs ended. The jobs are locked.
SELECT {columns echoes e} FROM {batch b: id text} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NULL ORDER BY e.ended_at, e.cause;

-- name: follows_by_id
-- The follow rules of jobs.
SELECT {columns follows f} FROM {batch b: id text} JOIN follows f ON f.follower = b.id;

-- name: set_fire_times
-- Set the fire times of upstream events.
UPDATE echoes SET fire_time = b.at FROM {batch b: follower text, cause text, at bigint}
WHERE echoes.follower = b.follower AND echoes.cause = b.cause;

-- name: drop_upstream_events
-- Delete upstream events that cause no fire.
DELETE FROM echoes WHERE (follower, cause) IN (SELECT follower, cause FROM {batch b: follower text, cause text});

-- name: note_last
-- Set the newest fire time of jobs that follow others.
UPDATE follows SET last_at = b.at FROM {batch b: follower text, at bigint}
WHERE follows.follower = b.follower AND follows.last_at < b.at;

-- name: move_followers
-- Set the next fire of jobs that received an upstream event. Their rows are locked.
UPDATE jobs SET next_fire_at = b.next_fire_at, plan_at = b.plan_at
FROM {batch b: id text, next_fire_at bigint, plan_at bigint} WHERE jobs.id = b.id;

-- name: waiting_upstream_events
-- The first fire times of jobs that wait for the planner, in order, at most :limit for each job.
SELECT w.follower, w.fire_time FROM (
  SELECT e.follower, e.fire_time, row_number() OVER (PARTITION BY e.follower ORDER BY e.fire_time) AS place
  FROM {batch b: id text} JOIN echoes e ON e.follower = b.id WHERE e.fire_time IS NOT NULL
) AS w WHERE w.place <= :limit ORDER BY w.follower, w.fire_time;

-- name: sum_of_upstream_events
-- For each job: the number of fires that wait for the planner, the earliest and the latest.
SELECT e.follower, COUNT(*), MIN(e.fire_time), MAX(e.fire_time)
FROM {batch b: id text, after bigint} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NOT NULL AND e.fire_time > b.after GROUP BY e.follower;

-- name: causes
-- The upstream runs that caused the fires of jobs, up to a fire time.
SELECT e.follower, e.fire_time, e.cause FROM {batch b: id text, until bigint} JOIN echoes e ON e.follower = b.id
WHERE e.fire_time IS NOT NULL AND e.fire_time <= b.until;

-- name: use_upstream_events
-- Delete the upstream events up to a fire time, which are planned now, except the one of a deferred fire (`owed`).
DELETE FROM echoes WHERE (follower, cause) IN (
  SELECT e.follower, e.cause FROM {batch b: id text, until bigint, owed bigint} JOIN echoes e ON e.follower = b.id
  WHERE e.fire_time IS NOT NULL AND e.fire_time <= b.until AND NOT (e.fire_time {same} b.owed)
);

-- name: drop_all_upstream_events
-- Delete all upstream events of jobs.
DELETE FROM echoes WHERE follower {in b: text};

-- name: unfollow
-- Delete the follow rules of jobs.
DELETE FROM follows WHERE follower {in b: text};

-- name: follow
-- Set the follow rules of jobs.
INSERT INTO follows (follower, job_id, on_success, on_failure, last_at)
SELECT b.follower, b.job_id, b.on_success, b.on_failure, b.last_at
FROM {batch b: follower text, job_id text, on_success bigint, on_failure bigint, last_at bigint} WHERE true
ON CONFLICT (follower) DO UPDATE
SET job_id = excluded.job_id, on_success = excluded.on_success, on_failure = excluded.on_failure;

-- name: lock_follows
-- Lock all follow rules against other writers. A transaction takes this lock before it locks a job.
INSERT INTO meta (name, value) VALUES ('follows', 1) ON CONFLICT (name) DO UPDATE SET value = meta.value + 1;

-- name: chain
-- A job, the job that it follows, the job that this one follows, and so on, with their names.
WITH RECURSIVE up (id, place) AS (
  SELECT j.id, 0 FROM jobs j WHERE j.id = :job_id
  UNION ALL SELECT f.job_id, up.place + 1 FROM up JOIN follows f ON f.follower = up.id WHERE up.place < :limit
)
SELECT up.id, j.name FROM up LEFT JOIN jobs j ON j.id = up.id ORDER BY up.place;
