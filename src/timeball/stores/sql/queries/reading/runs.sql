-- Reading: runs, live and finished, and their output.

-- name: live_runs
-- Live runs by id.
SELECT {columns runs r}, j.name FROM {batch b: id text} JOIN runs r ON r.id = b.id
LEFT JOIN jobs j ON j.id = r.job_id;

-- name: finished_runs
-- Finished runs by id.
SELECT {columns history h}, j.name FROM {batch b: id text} {each_within history h: b.id}
LEFT JOIN jobs j ON j.id = h.job_id;

-- name: live_of_job_where
-- Live runs of a job that match a filter.
SELECT {columns runs r}, j.name FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE {where} ORDER BY {order} LIMIT :limit;

-- name: last_started
-- The finished run of a job that started last, among the 100 with the newest fires: runs start almost in the order of
-- their fires.
SELECT {columns history r}, j.name FROM (
  SELECT * FROM history
  WHERE job_id = :job_id AND started_at IS NOT NULL AND origin <> {origin.task}
    AND {days id >= :made_from AND id < :made_until}
  ORDER BY fire_time DESC, id DESC LIMIT 100
) AS r LEFT JOIN jobs j ON j.id = r.job_id ORDER BY r.started_at DESC, r.id DESC LIMIT 1;

-- name: attempts
-- The attempts of a run except the last one.
SELECT {columns attempts a} FROM attempts a WHERE a.run_id = :run_id ORDER BY a.attempt;

-- name: first_attempts
-- The first attempt of each run that has had more than one.
SELECT {columns attempts a} FROM {batch b: id text} JOIN attempts a ON a.run_id = b.id AND a.attempt = 1
WHERE {within a.run_id: b};

-- name: logs
-- The output of a run, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq) ORDER BY attempt, seq LIMIT :limit;

-- name: run_marks
-- The states of live runs, and the position of their newest output.
SELECT r.id, r.state, r.attempt, r.token, (
  SELECT l.attempt * 1000000 + l.seq FROM logs l WHERE {within l.run_id: b} AND l.run_id = r.id
  ORDER BY l.attempt DESC, l.seq DESC LIMIT 1
)
FROM {batch b: id text} JOIN runs r ON r.id = b.id;

-- name: logs_of_attempt
-- The output of one attempt, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND attempt = :only AND (attempt, seq) > (:attempt, :seq) ORDER BY seq LIMIT :limit;

-- name: count_live
-- The number of live runs that match a filter.
(SELECT COUNT(*) FROM runs r {jobs} WHERE {where})

-- name: count_finished
-- The number of finished runs that match a filter.
(SELECT COUNT(*) FROM history r {jobs} WHERE {where})

-- name: count_runs
-- The number of runs that match a filter. One statement, so that a run that ends at the same time counts once.
SELECT {counts};

-- name: specs_of_runs
-- The specs of runs: the edited one, if a user edited it, and the one that their job had in their version.
SELECT r.id, e.spec, COALESCE((
  SELECT v.spec FROM job_versions v WHERE v.job_id = r.job_id AND v.version >= r.version ORDER BY v.version LIMIT 1
), j.spec)
FROM (
  SELECT h.id, h.job_id, h.version FROM {batch b: id text} {each_within history h: b.id}
  UNION ALL SELECT l.id, l.job_id, l.version FROM {batch b: id text} JOIN runs l ON l.id = b.id
) AS r JOIN jobs j ON j.id = r.job_id LEFT JOIN edited_runs e ON e.run_id = r.id;
