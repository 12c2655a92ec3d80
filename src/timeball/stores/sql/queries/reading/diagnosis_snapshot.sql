-- What explains where a run or a job is. Each looks at a bounded number of rows.

-- name: live_of_job
-- The first live runs of a job, in the order of their instants.
SELECT {columns runs r}, j.name FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.job_id = :job_id AND r.origin <> {origin.task} ORDER BY r.fire_time, r.id LIMIT :most;

-- name: newest_of_job
-- The newest run or span of a job that ended.
SELECT {columns history r}, j.name FROM history r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.job_id = :job_id AND r.origin <> {origin.task} AND {days r.id >= :made_from AND r.id < :made_until}
ORDER BY r.fire_time DESC, r.id DESC LIMIT 1;

-- name: exceptions
-- Of the newest instants of a job, those that did not start on time, newest first.
SELECT {columns history r}, j.name FROM (
  SELECT * FROM history WHERE job_id = :job_id AND {days id >= :made_from AND id < :made_until}
  ORDER BY fire_time DESC, id DESC LIMIT :looked_at
) AS r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.origin IN ({origin.schedule}, {origin.catch_up}) AND r.verdict <> {verdict.on_time}
ORDER BY r.fire_time DESC, r.id DESC LIMIT :most;

-- name: turn_holder
-- The run whose turn it is under an ordering key.
SELECT holder FROM turns WHERE tenant = :tenant AND ordering_key = :ordering_key;

-- name: before_in_turn
-- How many live runs come before one under its ordering key.
SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.tenant = :tenant AND r.ordering_key = :ordering_key
    AND (r.fire_time, r.id) < (:fire_time, :id) LIMIT :most
) AS counted;

-- name: before_at_gate
-- How many runs come before one at the gate where it waits.
SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.tenant = :tenant AND r.gate = :gate AND (r.gate_rank, r.id) < (:gate_rank, :id)
  LIMIT :most
) AS counted;

-- name: gates
-- Gates as they are.
SELECT {columns gates g} FROM {batch b: tenant text, gate text}
JOIN gates g ON g.tenant = b.tenant AND g.gate = b.gate;

-- name: permit_holders
-- Runs that hold a permit, oldest first.
SELECT r.id FROM runs r WHERE r.tenant = :tenant AND r.permit = :permit ORDER BY r.id LIMIT :most;

-- name: kinds_of_runs
-- The kinds of runs that not every worker can take.
SELECT profile FROM profiles ORDER BY profile LIMIT :most;

-- name: ahead_for_anybody
-- How many claimable runs of each priority go before a run; `before` is where its rank would put it among them.
SELECT b.priority, (SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile IS NULL AND r.priority = b.priority
    AND r.eligible_at <= {least}(b.before, {now}) AND (r.eligible_at, r.fire_time, r.id) < (b.before, :fire_time, :id)
  ORDER BY r.eligible_at LIMIT :most
) AS counted) FROM {batch b: priority bigint, before bigint};

-- name: ahead_for_some
-- The same among the runs that not every worker can take, by kind.
SELECT b.profile, (SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile = b.profile
    AND r.eligible_at <= {least}(b.before, {now}) AND (r.eligible_at, r.fire_time, r.id) < (b.before, :fire_time, :id)
  ORDER BY r.eligible_at LIMIT :most
) AS counted) FROM {batch b: profile text, before bigint};
