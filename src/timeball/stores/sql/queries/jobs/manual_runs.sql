-- What people do with runs that ended.

-- name: runs_to_follow
-- Finished runs that may get a successor: their jobs, and what became of them. The jobs are locked.
SELECT h.id, h.job_id, h.status, h.retried_as, h.discarded_at, h.replayed_as
FROM {batch b: id text} {each_within history h: b.id} WHERE h.origin <> {origin.task};

-- name: mark_retried
-- Link finished runs to their successors, once. The jobs are locked.
UPDATE history SET retried_as = b.successor FROM {batch b: id text, successor text}
WHERE history.id = b.id AND {within history.id: b} AND history.retried_as IS NULL;

-- name: mark_replayed
-- Remember that runs were replayed. The jobs are locked.
UPDATE history SET replayed_as = b.successor FROM {batch b: id text, successor text}
WHERE history.id = b.id AND {within history.id: b};

-- name: jobs_of_finished
-- The jobs to lock before these runs change.
SELECT DISTINCT h.job_id FROM {batch b: id text} {each_within history h: b.id};

-- name: discard
-- Take runs that gave up, and that nobody dealt with, off the dead letters. The jobs are locked.
UPDATE history SET discarded_at = {now}
WHERE status IN ({gave_up}) AND retried_as IS NULL AND discarded_at IS NULL
  AND {within id: b} AND id IN (SELECT id FROM {batch b: id text})
RETURNING id;

-- name: own_specs
-- Give runs a spec of their own.
UPDATE runs SET spec = b.spec, task_id = b.task_id
FROM {batch b: id text, spec text, task_id text} WHERE runs.id = b.id;

-- name: specs_of_runs
-- What runs execute: the spec that somebody edited, if somebody did, and the one of their job in their version.
SELECT r.id, e.spec, COALESCE((
  SELECT v.spec FROM job_versions v WHERE v.job_id = r.job_id AND v.version >= r.version ORDER BY v.version LIMIT 1
), j.spec)
FROM (
  SELECT h.id, h.job_id, h.version FROM {batch b: id text} {each_within history h: b.id}
  UNION ALL SELECT l.id, l.job_id, l.version FROM {batch b: id text} JOIN runs l ON l.id = b.id
) AS r JOIN jobs j ON j.id = r.job_id LEFT JOIN edited_runs e ON e.run_id = r.id;

-- name: match_live
-- The next live runs that match, oldest first. One statement: a run that is claimed or given back meanwhile is seen.
SELECT r.id, r.job_id, r.fire_time, r.state, r.attempt, COALESCE(r.due_at, r.fire_time), r.eligible_at
FROM ({found}) AS found JOIN runs r ON r.id = found.id ORDER BY {order} LIMIT :most;

-- name: match_finished
-- The next finished runs that match, oldest first.
SELECT r.id, r.job_id, r.fire_time, r.status FROM history r {jobs} WHERE {where} ORDER BY {order} LIMIT :most;

-- name: match_finished_nearby
-- The next finished runs that match, or less: those of them that are among the first so many of any job.
SELECT r.id, r.job_id, r.fire_time, r.status FROM (
  SELECT r.* FROM history r WHERE {nearby} ORDER BY {order} LIMIT :nearby
) AS r {jobs} WHERE {where} ORDER BY {order} LIMIT :most;

-- name: match_finished_of_jobs
-- The next finished runs of some jobs that match, oldest first.
SELECT r.id, r.job_id, r.fire_time, r.status FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT :most
) {firsts_end} ORDER BY {order} LIMIT :most;

-- name: count_live
-- How many live runs meet a condition.
(SELECT COUNT(*) FROM runs r {jobs} WHERE {where})

-- name: count_finished
-- How many finished runs meet a condition.
(SELECT COUNT(*) FROM history r {jobs} WHERE {where})

-- name: count_runs
-- How many runs match; one statement, so that a run that ends meanwhile counts once.
SELECT {counts};

-- name: letter_groups
-- What the newest dead letters have in common, the largest groups first, each with its newest letter. Counted by job
-- first: to count distinct jobs, PostgreSQL would sort the letters once more.
SELECT g.fingerprint, g.letters, g.jobs, g.first_at, g.last_at, g.newest, h.failure, g.counted FROM (
  SELECT o.fingerprint, SUM(o.letters) AS letters, COUNT(*) AS jobs, MIN(o.first_at) AS first_at,
    MAX(o.last_at) AS last_at, MAX(o.newest) AS newest, SUM(SUM(o.letters)) OVER () AS counted
  FROM (
    SELECT l.fingerprint, l.job_id, COUNT(*) AS letters, MIN(l.finished_at) AS first_at, MAX(l.finished_at) AS last_at,
      MAX(l.id) AS newest
    FROM (
      SELECT r.id, r.job_id, r.fingerprint, r.finished_at FROM history r {jobs}
      WHERE {where} ORDER BY r.fire_time DESC, r.id DESC LIMIT :counted
    ) AS l GROUP BY l.fingerprint, l.job_id
  ) AS o GROUP BY o.fingerprint
) AS g {each history h: g.newest} ORDER BY g.letters DESC, g.newest DESC LIMIT :most;
