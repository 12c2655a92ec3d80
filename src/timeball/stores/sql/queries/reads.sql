-- Reading: runs, live and finished, the ledger, and output.

-- name: live_runs
-- Live runs by id.
SELECT {columns runs r}, j.name FROM {batch b: id text} JOIN runs r ON r.id = b.id
LEFT JOIN jobs j ON j.id = r.job_id;

-- name: finished_runs
-- Finished runs by id.
SELECT {columns history h}, j.name FROM {batch b: id text} JOIN history h ON h.id = b.id
LEFT JOIN jobs j ON j.id = h.job_id;

-- name: list_live
-- A page of live runs.
SELECT {columns runs r}, j.name FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE {where} ORDER BY {order} LIMIT :most;

-- name: list_finished
-- A page of finished runs.
SELECT {columns history r}, j.name FROM history r LEFT JOIN jobs j ON j.id = r.job_id
WHERE {where} ORDER BY {order} LIMIT :most;

-- name: last_started
-- The run of a job that started last, of the hundred newest: their order by id and by start differs only locally.
SELECT {columns history r}, j.name FROM (
  SELECT * FROM history WHERE job_id = :job_id AND started_at IS NOT NULL ORDER BY id DESC LIMIT 100
) AS r LEFT JOIN jobs j ON j.id = r.job_id ORDER BY r.started_at DESC, r.id DESC LIMIT 1;

-- name: attempts
-- The attempts of a run before its last.
SELECT {columns attempts a} FROM attempts a WHERE a.run_id = :run_id ORDER BY a.attempt;

-- name: first_attempts
-- The first attempt of each run that has had another.
SELECT {columns attempts a} FROM {batch b: id text} JOIN attempts a ON a.run_id = b.id AND a.attempt = 1;

-- name: ledger_sums
-- How many instants got which verdict, or none yet; one statement, so that a run that ends meanwhile counts once.
-- A span that reaches into the range counts as a whole.
SELECT r.verdict, SUM(r.fires) FROM history r WHERE {finished} GROUP BY r.verdict
UNION ALL SELECT 'open', COUNT(*) FROM runs r WHERE {live};

-- name: logs
-- Output of a run, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq) ORDER BY attempt, seq LIMIT :most;

-- name: logs_of_attempt
-- Output of one attempt, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND attempt = :only AND (attempt, seq) > (:attempt, :seq) ORDER BY seq LIMIT :most;
