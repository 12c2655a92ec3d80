-- Execution: claiming, settling, cancelling, and what held attempts say of themselves.

-- name: claim
-- Hand the best ready runs to the free slots of sessions that have a lease, one each.
WITH slots AS MATERIALIZED (
  SELECT b.session, w.name AS worker, row_number() OVER (ORDER BY b.place) AS place
  FROM {batch b: place bigint, session text} JOIN workers w ON w.session = b.session
  WHERE w.lapsed = 0 AND w.lease_until > {now}
), candidates AS MATERIALIZED (
  {levels}
), picked AS MATERIALIZED (
  SELECT id, row_number() OVER (
    ORDER BY CASE WHEN eligible_at > {now} THEN 1 ELSE 0 END, eligible_at - priority * {credit}, fire_time, id
  ) AS place FROM candidates
)
UPDATE runs SET
  state = 'running', attempt = attempt + 1, token = {token}, session = slots.session, worker = slots.worker,
  claimed_at = {now}
FROM picked JOIN slots ON slots.place = picked.place
WHERE runs.id = picked.id AND runs.state = 'ready'
RETURNING
  runs.session, runs.id, runs.job_id, runs.attempt, runs.token, runs.fire_time, runs.eligible_at, runs.serial,
  runs.priority, runs.claimed_at,
  COALESCE(runs.spec, (SELECT j.spec FROM jobs j WHERE j.id = runs.job_id)),
  (SELECT t.spec FROM tasks t WHERE t.tenant = runs.tenant AND t.id = CASE
    WHEN runs.spec IS NULL THEN (SELECT j.task_id FROM jobs j WHERE j.id = runs.job_id) ELSE runs.task_id END);

-- name: claim_level
-- The first ready runs of one priority: within it, the order of rank is the order of the index.
SELECT * FROM (
  SELECT id, priority, eligible_at, fire_time FROM runs
  WHERE state = 'ready' AND priority = {level} AND eligible_at <= {now} + :ahead
  ORDER BY eligible_at, fire_time, id LIMIT :free {skip_locked}
) AS level_{level}

-- name: advance_tokens
-- Move the counter of tokens on.
UPDATE meta SET value = value + :count WHERE name = 'token';

-- name: next_eligible_at
-- When the earliest ready run may be claimed.
SELECT MIN(eligible_at) FROM ({levels}) AS firsts;

-- name: next_of_level
-- The first ready run of one priority.
SELECT * FROM (
  SELECT eligible_at FROM runs WHERE state = 'ready' AND priority = {level} ORDER BY eligible_at LIMIT 1
) AS level_{level}

-- name: lock_job_ids
-- Keep jobs from every other writer; in the order of their ids, so that nobody waits in a circle.
SELECT j.id FROM {batch b: id text} JOIN jobs j ON j.id = b.id ORDER BY j.id {lock j};

-- name: lock_attempts
-- The attempts that still are what their holders say: the guard of id, attempt, token and state.
SELECT {columns runs r}, {now}
FROM {batch b: id text, attempt bigint, token bigint} JOIN runs r ON r.id = b.id
WHERE r.attempt = b.attempt AND r.token = b.token AND r.state = 'running' ORDER BY r.id {lock r};

-- name: lock_tokens
-- The attempts of a session that still have their token.
SELECT r.id, r.token FROM {batch b: id text, token bigint} JOIN runs r ON r.id = b.id
WHERE r.token = b.token AND r.session = :session AND r.state = 'running' ORDER BY r.id {lock r};

-- name: lock_writers
-- The attempts that may still write output.
SELECT r.id, r.attempt, r.token FROM {batch b: id text, attempt bigint, token bigint} JOIN runs r ON r.id = b.id
WHERE r.attempt = b.attempt AND r.token = b.token AND r.state = 'running' ORDER BY r.id {lock r};

-- name: specs_of_jobs
-- The rules by which runs without a spec of their own are judged.
SELECT j.id, j.spec FROM {batch b: id text} JOIN jobs j ON j.id = b.id;

-- name: delete_runs
-- Take finished runs, whose rows are locked, off the live table.
DELETE FROM runs WHERE id IN (SELECT id FROM {batch b: id text});

-- name: ready_again
-- Put runs whose attempt ended, and whose rows are locked, back for another.
UPDATE runs SET
  state = 'ready', attempt = b.attempt, eligible_at = b.eligible_at, started_at = b.started_at, failure = b.failure,
  token = NULL, session = NULL, worker = NULL, claimed_at = NULL, attempt_started_at = NULL,
  progress = NULL, progress_note = ''
FROM {batch b: id text, attempt bigint, eligible_at bigint, started_at bigint, failure text}
WHERE runs.id = b.id;

-- name: drop_logs
-- Forget the output of attempts that were given back.
DELETE FROM logs WHERE (run_id, attempt) IN (SELECT id, attempt FROM {batch b: id text, attempt bigint});

-- name: note_starts
-- Record when held attempts started.
UPDATE runs SET attempt_started_at = b.at, started_at = COALESCE(started_at, b.at)
FROM {batch b: id text, at bigint} WHERE runs.id = b.id AND runs.attempt_started_at IS NULL;

-- name: note_progress
-- Record how far held attempts are.
UPDATE runs SET progress = b.fraction, progress_note = b.note
FROM {batch b: id text, fraction double precision, note text} WHERE runs.id = b.id;

-- name: serial_jobs_of
-- The jobs to lock before these runs.
SELECT DISTINCT r.job_id FROM {batch b: id text} JOIN runs r ON r.id = b.id WHERE r.serial = 1;

-- name: lock_runs
-- Live runs, kept from every other writer.
SELECT {columns runs r}, {now} FROM {batch b: id text} JOIN runs r ON r.id = b.id ORDER BY r.id {lock r};

-- name: ask_to_cancel
-- Ask the holders of running attempts to stop.
UPDATE runs SET cancel_requested_at = COALESCE(cancel_requested_at, {now})
WHERE state = 'running' AND id IN (SELECT id FROM {batch b: id text});

-- name: holding
-- Tokens of a session's attempts, each with whether it is to be cancelled.
SELECT token, cancel_requested_at FROM runs WHERE session = :session AND state = 'running';

-- name: cancel_orders
-- Whom to tell that an attempt is to stop.
SELECT session, token FROM runs WHERE state = 'running' AND cancel_requested_at IS NOT NULL ORDER BY token;

-- name: hurry
-- Make a waiting retry eligible now.
UPDATE runs SET eligible_at = {least}(eligible_at, {greatest}(fire_time, {now}))
WHERE id = :id AND state = 'ready' AND attempt > 0 RETURNING id;
