-- Input of the diagnosis of a run or a job (`timeball why`). Each statement reads a bounded number of rows.

-- name: live_of_job
-- The first live runs of a job, in the order of their fires.
SELECT {columns runs r}, j.name FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.job_id = :job_id AND r.origin <> {origin.task} ORDER BY r.fire_time, r.id LIMIT :limit;

-- name: newest_of_job
-- The newest row of a job in the history: a finished run or a span of fires.
SELECT {columns history r}, j.name FROM history r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.job_id = :job_id AND r.origin <> {origin.task} AND {days r.id >= :made_from AND r.id < :made_until}
ORDER BY r.fire_time DESC, r.id DESC LIMIT 1;

-- name: exceptions
-- Of the newest :looked_at fires of a job, those that did not start on time, newest first.
SELECT {columns history r}, j.name FROM (
  SELECT * FROM history WHERE job_id = :job_id AND {days id >= :made_from AND id < :made_until}
  ORDER BY fire_time DESC, id DESC LIMIT :looked_at
) AS r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.origin IN ({origin.schedule}, {origin.catch_up}) AND r.verdict <> {verdict.on_time}
ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit;

-- name: turn_holder
-- The run that holds an ordering key.
SELECT holder FROM turns WHERE tenant = :tenant AND ordering_key = :ordering_key;

-- name: before_in_turn
-- The number of live runs before a run under its ordering key, at most :limit.
SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.tenant = :tenant AND r.ordering_key = :ordering_key
    AND (r.fire_time, r.id) < (:fire_time, :id) LIMIT :limit
) AS counted;

-- name: before_at_gate
-- The number of runs before a run at its gate, at most :limit.
SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.tenant = :tenant AND r.gate = :gate AND (r.gate_rank, r.id) < (:gate_rank, :id)
  LIMIT :limit
) AS counted;

-- name: gates
-- Gates by key.
SELECT {columns gates g} FROM {batch b: tenant text, gate text}
JOIN gates g ON g.tenant = b.tenant AND g.gate = b.gate;

-- name: permit_holders
-- Runs that hold a concurrency permit, oldest first.
SELECT r.id FROM runs r WHERE r.tenant = :tenant AND r.permit = :permit ORDER BY r.id LIMIT :limit;

-- name: ahead_for_all_kinds
-- The number of claimable runs of each priority that go before a run. A run of that priority goes before it if it could
-- be claimed before the instant `before`, which stands for the rank of the run.
SELECT b.priority, (SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile IS NULL AND r.priority = b.priority
    AND r.eligible_at <= {least}(b.before, {now}) AND (r.eligible_at, r.fire_time, r.id) < (b.before, :fire_time, :id)
  ORDER BY r.eligible_at LIMIT :limit
) AS counted) FROM {batch b: priority bigint, before bigint};

-- name: ahead_for_some_kinds
-- The number of claimable runs of each placement profile that go before a run. A run of that profile goes before it if
-- it could be claimed before the instant `before`, which stands for the rank of the run.
SELECT b.profile, (SELECT COUNT(*) FROM (
  SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile = b.profile
    AND r.eligible_at <= {least}(b.before, {now}) AND (r.eligible_at, r.fire_time, r.id) < (b.before, :fire_time, :id)
  ORDER BY r.eligible_at LIMIT :limit
) AS counted) FROM {batch b: profile text, before bigint};
