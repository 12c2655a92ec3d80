-- Reading: runs, live and finished, the ledger, and output.

-- name: live_runs
-- Live runs by id.
SELECT {columns runs r}, j.name FROM {batch b: id text} JOIN runs r ON r.id = b.id
LEFT JOIN jobs j ON j.id = r.job_id;

-- name: finished_runs
-- Finished runs by id.
SELECT {columns history h}, j.name FROM {batch b: id text} {each_within history h: b.id}
LEFT JOIN jobs j ON j.id = h.job_id;

-- name: list_live
-- A page of live runs. One statement: a run that is claimed or given back meanwhile is seen.
SELECT {columns runs r}, j.name FROM ({found}) AS found JOIN runs r ON r.id = found.id
LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order} LIMIT :most;

-- name: live_of_job_where
-- Live runs of a job.
SELECT {columns runs r}, j.name FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE {where} ORDER BY {order} LIMIT :most;

-- name: find_live
-- The first live runs that meet a condition.
SELECT * FROM (SELECT r.id FROM runs r {jobs} WHERE {where} ORDER BY {order} LIMIT :most) AS met

-- name: find_live_of_jobs
-- The first live runs of some jobs that meet a condition.
SELECT * FROM (
  SELECT r.id FROM ({chosen}) AS chosen CROSS JOIN runs r WHERE r.job_id = chosen.id AND {where}
  ORDER BY {order} LIMIT :most
) AS met

-- name: list_finished
-- A page of finished runs. The names come afterwards: a plan that begins with them would sort all that matches.
SELECT {shown history r}, j.name FROM (
  SELECT r.* FROM history r {jobs} WHERE {where} AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY {order} LIMIT :most
) AS r LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order};

-- name: list_finished_nearby
-- A page of finished runs, or less: what of it is among the first so many of any job.
SELECT {shown history r}, j.name FROM (
  SELECT r.* FROM history r WHERE {nearby} ORDER BY {order} LIMIT :nearby
) AS r LEFT JOIN jobs j ON j.id = r.job_id WHERE {where} ORDER BY {order} LIMIT :most;

-- name: first_of_jobs
-- The jobs of some whose first runs come first, and those runs.
SELECT r.job_id, r.fire_time, r.id FROM ({chosen}) AS chosen {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = chosen.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT 1
) {firsts_end} ORDER BY {order} LIMIT :most;

-- name: list_finished_of_jobs
-- A page of the finished runs of some jobs.
SELECT {shown history r}, j.name FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT :most
) {firsts_end} LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order} LIMIT :most;

-- name: count_chosen_jobs
-- How many jobs a filter chooses, up to a bound.
SELECT COUNT(*) FROM (SELECT 1 FROM ({chosen}) AS chosen LIMIT :most) AS counted;

-- name: last_started
-- The run of a job that started last, of the hundred newest: their order by fire and by start differs only locally.
SELECT {columns history r}, j.name FROM (
  SELECT * FROM history
  WHERE job_id = :job_id AND started_at IS NOT NULL AND origin <> {origin.task}
    AND {days id >= :made_from AND id < :made_until}
  ORDER BY fire_time DESC, id DESC LIMIT 100
) AS r LEFT JOIN jobs j ON j.id = r.job_id ORDER BY r.started_at DESC, r.id DESC LIMIT 1;

-- name: attempts
-- The attempts of a run before its last.
SELECT {columns attempts a} FROM attempts a WHERE a.run_id = :run_id ORDER BY a.attempt;

-- name: first_attempts
-- The first attempt of each run that has had another.
SELECT {columns attempts a} FROM {batch b: id text} JOIN attempts a ON a.run_id = b.id AND a.attempt = 1
WHERE {within a.run_id: b};

-- name: ledger_sums
-- How many instants got which verdict, or none yet; one statement, so that a run that ends meanwhile counts once.
-- A span that reaches into the range counts as a whole, and so does a day of which only the sums are left. A run that
-- departs is in the history, departing, or in the sums. Most runs are on time: all of them are counted, in an index
-- alone, and those that are not, which have a smaller one, are taken off again. What was not due has no verdict here.
SELECT f.verdict, SUM(f.fires), SUM(f.taken_off) FROM (
  SELECT {verdict.on_time} AS verdict, COUNT(*) AS fires, 0 AS taken_off FROM history r WHERE {finished}
  UNION ALL SELECT CASE WHEN {due} THEN r.verdict END, r.fires, 1 FROM history r
    WHERE {finished} AND (r.verdict <> {verdict.on_time} OR r.origin <> {origin.schedule})
  UNION ALL SELECT r.verdict, r.fires, 0 FROM history r WHERE {short}
  UNION ALL SELECT r.verdict, r.fires, 0 FROM history r WHERE {long}
  UNION ALL SELECT r.verdict, r.fires, 0 FROM departing r WHERE {departing} AND NOT EXISTS (
    SELECT 1 FROM departures d WHERE r.id >= d.since AND r.id <= d.upto
  )
  UNION ALL SELECT s.verdict, s.fires, 0 FROM daily_sums s
    WHERE s.job_id = :job_id AND s.day > :since - 86400000000 AND s.day < :until
) AS f GROUP BY f.verdict
UNION ALL SELECT {verdict.open}, COUNT(*), 0 FROM runs r WHERE {live};

-- name: logs
-- Output of a run, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND (attempt, seq) > (:attempt, :seq) ORDER BY attempt, seq LIMIT :most;

-- name: run_marks
-- Where live runs stand, and the place of their newest output.
SELECT r.id, r.state, r.attempt, r.token, (
  SELECT l.attempt * 1000000 + l.seq FROM logs l WHERE {within l.run_id: b} AND l.run_id = r.id
  ORDER BY l.attempt DESC, l.seq DESC LIMIT 1
)
FROM {batch b: id text} JOIN runs r ON r.id = b.id;

-- name: logs_of_attempt
-- Output of one attempt, in order.
SELECT attempt, seq, stream, at, text FROM logs
WHERE run_id = :run_id AND attempt = :only AND (attempt, seq) > (:attempt, :seq) ORDER BY seq LIMIT :most;
