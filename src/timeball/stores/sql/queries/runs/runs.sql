-- Execution: claiming, settling, cancelling, and the start and progress of running attempts.

-- name: leased_sessions
-- Sessions with a valid lease that are not draining: the name of the worker, whether it accepts only some runs (by
-- label, task kind or tenant), and the placement profile that it is reserved for. Each row also says whether any host
-- has recent failures, whether runs with a placement profile are ready, and the lowest and highest priority of ready
-- runs without one.
SELECT w.session, w.name, w.dedicated,
  CASE WHEN w.reserved_until > {now} AND EXISTS (
    SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile = w.reserved_for AND r.eligible_at <= {now}
  ) THEN w.reserved_for END,
  EXISTS (SELECT 1 FROM gates g WHERE g.failures > 0),
  EXISTS (SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile IS NOT NULL AND r.eligible_at <= {now} + :ahead),
  (SELECT r.priority FROM runs r WHERE r.state = {state.ready} AND r.profile IS NULL ORDER BY r.priority LIMIT 1),
  (SELECT r.priority FROM runs r WHERE r.state = {state.ready} AND r.profile IS NULL ORDER BY r.priority DESC LIMIT 1)
FROM {batch b: session text} JOIN workers w ON w.session = b.session
WHERE w.lapsed = {lease.held} AND w.lease_until > {now} AND w.draining_since IS NULL;

-- name: claimable
-- Lock and return the best ready runs without a placement profile by rank, in no order. Due runs come before runs that
-- are due within :ahead.
SELECT
  {candidate}
FROM (
  SELECT * FROM (
    {for_each_level} {first_of_level} {end_of_level}
  ) AS levels
  ORDER BY CASE WHEN eligible_at > {now} THEN 1 ELSE 0 END, eligible_at - priority * {credit}, fire_time, id
  LIMIT :free
) AS c {each jobs j: c.job_id};

-- name: claimable_of_level
-- Lock and return the first ready runs of one priority without a placement profile. A claim uses this statement if all
-- ready runs without a profile have this priority, because it needs no sort, unlike `claimable`.
SELECT
  {candidate}
FROM ({first_of_level}) AS c {each jobs j: c.job_id};

-- name: first_of_level
-- The first ready runs of one priority without a placement profile. Within a priority the order of rank is the order of
-- the index.
SELECT id, job_id, tenant, attempt, priority, eligible_at, fire_time, serial, spec, task_id,
  ordering_key, gated, profile FROM runs
WHERE state = {state.ready} AND profile IS NULL AND priority = {level} AND eligible_at <= {now} + :ahead
  AND (start_by IS NULL OR start_by >= {now} OR attempt > 0)
ORDER BY eligible_at, fire_time, id LIMIT :free {skip_locked}

-- name: candidate
-- Columns of a run `c` of a job `j` that can be claimed.
c.id, c.job_id, c.attempt, c.fire_time, c.eligible_at, c.serial, c.priority, {now},
COALESCE(c.spec, j.spec),
(SELECT t.spec FROM tasks t
  WHERE t.tenant = c.tenant AND t.id = CASE WHEN c.spec IS NULL THEN j.task_id ELSE c.task_id END),
c.tenant, c.ordering_key, c.gated, c.profile, j.traceparent

-- name: put_off_runs
-- Delay ready runs that cannot be claimed or begun now.
UPDATE runs SET eligible_at = b.eligible_at FROM {batch b: id text, eligible_at bigint}
WHERE runs.id = b.id AND runs.state = {state.ready};

-- name: profiles_waiting
-- The placement profiles of runs that are ready now or within :ahead.
SELECT p.profile FROM profiles p WHERE EXISTS (
  SELECT 1 FROM runs x WHERE x.state = {state.ready} AND x.profile = p.profile AND x.eligible_at <= {now} + :ahead
);

-- name: fitting_runs
-- Lock and return the first ready runs of given placement profiles.
SELECT
  {candidate}
FROM (
  SELECT r.* FROM {batch b: profile text} JOIN runs r ON r.id {among} (
    SELECT x.id FROM runs x
    WHERE x.state = {state.ready} AND x.profile = b.profile AND x.eligible_at <= {now} + :ahead
      AND (x.start_by IS NULL OR x.start_by >= {now} OR x.attempt > 0)
    ORDER BY x.eligible_at, x.fire_time, x.id LIMIT :free
  {among_end}) WHERE r.state = {state.ready} {skip_locked_of r}
) AS c {each jobs j: c.job_id};

-- name: wait_for_kind
-- Give ready runs a placement profile, so that only workers that fit can claim them.
UPDATE runs SET profile = b.profile FROM {batch b: id text, profile text} WHERE runs.id = b.id AND runs.state = {state.ready};

-- name: set_aside_runs_of_task
-- Lock and return the ready runs of a registered task that wait in the queue of a placement profile with a task kind
-- (its text has an @).
SELECT r.id, r.priority, r.profile FROM profiles p
JOIN runs r ON r.profile = p.profile AND r.state = {state.ready}
JOIN jobs j ON j.id = r.job_id
WHERE p.profile LIKE '%@%' AND r.tenant = :tenant
  AND CASE WHEN r.spec IS NULL THEN j.task_id ELSE r.task_id END = :id
{lock r};

-- name: offers
-- Lock and return the capacity of workers, except those for which another server is claiming.
SELECT w.session, w.slots, w.labels, w.cpu, w.memory, w.dedicated
FROM {batch b: session text} JOIN workers w ON w.session = b.session {skip_locked_of w};

-- name: shares_held
-- The CPU and memory that the running attempts of workers hold.
SELECT r.session, r.needs FROM {batch b: session text} JOIN runs r ON r.session = b.session
WHERE r.state = {state.running} AND r.needs IS NOT NULL;

-- name: reserved_profiles
-- The placement profiles for which a worker is reserved.
SELECT w.reserved_for FROM workers w
WHERE w.lapsed = {lease.held} AND w.lease_until > {now} AND w.reserved_until > {now} AND w.reserved_for IS NOT NULL
  AND w.draining_since IS NULL;

-- name: reserve
-- Reserve workers for runs of a placement profile, or end the reservation if `lasts` is 0. The rows are locked.
UPDATE workers SET reserved_for = b.profile, reserved_until = {now} + b.lasts
FROM {batch b: session text, profile text, lasts bigint} WHERE workers.session = b.session;

-- name: claim
-- Claim runs for sessions. Their rows are locked. Runs are found by id: by state, PostgreSQL would read all index
-- entries of runs that were ready once, until the next vacuum.
UPDATE runs SET
  state = {state.running}, attempt = runs.attempt + 1, token = b.token, session = b.session, worker = b.worker,
  poll = b.poll, claimed_at = :at, gate = NULL
FROM {batch b: id text, token bigint, session text, worker text, poll bigint}
WHERE runs.id = b.id AND {unindexed_text runs.state} = {state.ready};

-- name: claim_for_one
-- Claim runs for one session. Their rows are locked. The tokens are consecutive, from :first_token on.
UPDATE runs SET
  state = {state.running}, attempt = runs.attempt + 1, token = :first_token + b.nth, session = :session, worker = :worker,
  poll = :poll, claimed_at = :at, gate = NULL
FROM {numbered b: id text}
WHERE runs.id = b.id AND {unindexed_text runs.state} = {state.ready};

-- name: waiting_now
-- The time, and whether a ready run is due: if so, a submit inserts its runs as ready and then claims in rank order,
-- and does not insert them as already claimed. Then whether a host has recent failures, which concerns runs that call
-- it. The statement has no parameters, so PostgreSQL plans it once. Last, a new fencing token where a separate statement
-- would cost a round trip; one job needs no other token.
SELECT {now}, EXISTS (
  {for_each_level}
  SELECT 1 FROM runs
  WHERE state = {state.ready} AND profile IS NULL AND priority = {level} AND eligible_at <= {now}
    AND (start_by IS NULL OR start_by >= {now} OR attempt > 0)
  LIMIT 1
  {end_of_level}
) OR EXISTS (
  SELECT 1 FROM runs WHERE state = {state.ready} AND profile IS NOT NULL AND eligible_at <= {now}
), EXISTS (SELECT 1 FROM gates WHERE failures > 0), {fresh_token};

-- name: there_for_all
-- The sessions among these that have a valid lease, are not draining and take any run, with the names of their workers.
SELECT w.session, w.name FROM workers w
WHERE w.session {in b: text} AND w.lapsed = {lease.held} AND w.lease_until > {now} AND w.dedicated = 0
  AND w.draining_since IS NULL;

-- name: next_eligible_at
-- The time at which the next ready run becomes eligible, after the instant :after, or after :constrained_after if it has a placement
-- profile.
SELECT MIN(eligible_at) FROM (
  {for_each_level}
  SELECT eligible_at FROM runs
  WHERE state = {state.ready} AND profile IS NULL AND priority = {level} AND eligible_at > :after
    AND (start_by IS NULL OR start_by >= {now} OR attempt > 0)
  ORDER BY eligible_at LIMIT 1
  {end_of_level}
  UNION ALL SELECT (
    SELECT r.eligible_at FROM runs r WHERE r.state = {state.ready} AND r.profile = p.profile AND r.eligible_at > :constrained_after
      AND (r.start_by IS NULL OR r.start_by >= {now} OR r.attempt > 0)
    ORDER BY r.eligible_at LIMIT 1
  ) FROM profiles p
) AS firsts;

-- name: lock_job_ids
-- Lock jobs. Locks are taken in the order of the ids, which avoids deadlocks.
SELECT j.id FROM {batch b: id text} JOIN jobs j ON j.id = b.id {lock j};

-- name: lock_attempts
-- Lock and return running attempts.
SELECT {columns runs r} FROM {batch b: id text} {each_locked runs r: b.id}
WHERE r.state = {state.running};

-- name: lock_holders
-- Lock running attempts and return the attempt number, token and session that a write must match.
SELECT r.id, r.attempt, r.token, r.session FROM {batch b: id text} {each_locked runs r: b.id}
WHERE r.state = {state.running};

-- name: held_attempts
-- The given attempts that the session holds.
SELECT r.id, r.attempt, r.token FROM {batch b: id text, attempt bigint, token bigint} JOIN runs r ON r.id = b.id
WHERE r.state = {state.running} AND r.attempt = b.attempt AND r.token = b.token AND r.session = :session;

-- name: specs_of_jobs
-- The specs of jobs, for runs that have no spec of their own.
SELECT j.id, j.spec FROM {batch b: id text} JOIN jobs j ON j.id = b.id;

-- name: record_successes
-- Insert the history rows of attempts that succeeded, and lock their runs. Only for runs whose end affects no other
-- run: not serial, no ordering key, no permit, no follower. The verdict is the rule of `rows.ended` and
-- `ledger.verdict`, written in SQL.
INSERT INTO history (
  id, job_id, tenant, version, fire_time, fire_until, fires, origin, status,
  verdict,
  reason, attempt, token, worker, eligible_at,
  created_at, claimed_at, started_at, attempt_started_at, finished_at,
  progress, progress_note, failure, result, retry_of, due_at
)
SELECT
  m.id, m.job_id, m.tenant, m.version, m.fire_time, m.fire_time, 1, m.origin, {status.succeeded},
  CASE WHEN m.origin IN ({origin.catch_up}, {origin.backfill}) THEN {verdict.caught_up}
    WHEN COALESCE(m.started_at, m.began) - m.due <= :tolerance THEN {verdict.on_time} ELSE {verdict.late} END,
  '', m.attempt, m.token, m.worker, CASE WHEN m.let_at > m.eligible_at THEN m.let_at ELSE m.eligible_at END,
  m.created_at, m.claimed_at, COALESCE(m.started_at, m.began), m.began, {greatest}(m.ended, m.began),
  m.progress, m.progress_note, m.failure, m.result, m.retry_of, m.due_at
FROM (
  SELECT r.*, COALESCE(r.due_at, r.fire_time) AS due, {greatest}(b.began, COALESCE(r.due_at, r.fire_time)) AS began,
    b.ended, b.result, CAST({session} AS text) AS holder
    -- `holder` uses the session parameter before the batch: SQLite binds the values of a batch after all other
    -- parameters.
  FROM {batch b: id text, attempt bigint, token bigint, began bigint, ended bigint, result text{session_column}}
  {each_locked runs r: b.id}
  WHERE r.state = {state.running} AND r.attempt = b.attempt AND r.token = b.token AND {unindexed r.session} = {session}
    AND r.cancel_requested_at IS NULL
    AND r.serial = 0 AND r.ordering_key IS NULL AND r.permit IS NULL
    -- Whether any follow rule exists is checked once. The rule of each job is checked only then.
    AND NOT (EXISTS (SELECT 1 FROM follows) AND EXISTS (SELECT 1 FROM follows f WHERE f.job_id = r.job_id))
) AS m;

-- name: delete_runs
-- Delete finished runs from the live table. Their rows are locked.
DELETE FROM runs WHERE id {in b: text};

-- name: ready_again
-- Make runs ready for another attempt after one ended. Their rows are locked.
UPDATE runs SET
  state = {state.ready}, attempt = b.attempt, eligible_at = b.eligible_at, started_at = b.started_at, failure = b.failure,
  start_by = b.start_by,
  token = NULL, session = NULL, worker = NULL, poll = NULL, claimed_at = NULL, attempt_started_at = NULL,
  progress = NULL, progress_note = '', permit = NULL, needs = NULL, gate = NULL, gate_rank = NULL, let_at = NULL
FROM {batch b: id text, attempt bigint, eligible_at bigint, started_at bigint, failure text, start_by bigint}
WHERE runs.id = b.id;

-- name: drop_logs
-- Delete the output of attempts that a worker released.
DELETE FROM logs WHERE {within run_id: b} AND (run_id, attempt) IN (SELECT id, attempt FROM {batch b: id text, attempt bigint});

-- name: note_starts
-- Record when running attempts started.
UPDATE runs SET attempt_started_at = {greatest}(b.at, COALESCE(runs.due_at, runs.fire_time)),
  started_at = COALESCE(started_at, {greatest}(b.at, COALESCE(runs.due_at, runs.fire_time)))
FROM {batch b: id text, at bigint} WHERE runs.id = b.id AND runs.attempt_started_at IS NULL;

-- name: note_progress
-- Record the progress of running attempts.
UPDATE runs SET progress = b.fraction, progress_note = b.note
FROM {batch b: id text, fraction double precision, note text} WHERE runs.id = b.id;

-- name: locks_of
-- The jobs and ordering keys to lock before these runs.
SELECT r.job_id, r.serial, r.tenant, r.ordering_key FROM {batch b: id text} JOIN runs r ON r.id = b.id
WHERE r.serial = 1 OR r.ordering_key IS NOT NULL;

-- name: lock_runs
-- Lock and return live runs.
SELECT {columns runs r}, {now} FROM {batch b: id text} JOIN runs r ON r.id = b.id {lock r};

-- name: ask_to_cancel
-- Request the cancellation of running attempts.
UPDATE runs SET cancel_requested_at = COALESCE(cancel_requested_at, {now}),
  cancel_reason = COALESCE(cancel_reason, :reason), kill = {greatest}(kill, :kill)
WHERE state = {state.running} AND id IN (SELECT id FROM {batch b: id text});

-- name: holding
-- The tokens of the attempts of a session, and whether cancellation was requested for each.
SELECT token, cancel_requested_at, kill FROM runs WHERE session = :session AND state = {state.running};

-- name: worker_orders
-- The attempts for which cancellation was requested, with the session that must be notified. Rows without a token are the
-- sessions of workers that were ordered to drain.
SELECT session, token, kill FROM runs WHERE state = {state.running} AND cancel_requested_at IS NOT NULL AND session <> {session.weaver}
UNION ALL SELECT session, CAST(NULL AS bigint), 0 FROM workers
WHERE draining_since IS NOT NULL AND lapsed = {lease.held} AND lease_until > {now}
ORDER BY token;

-- name: retry_now
-- Make runs that wait for a retry eligible now.
UPDATE runs SET eligible_at = {least}(eligible_at, {greatest}(COALESCE(due_at, fire_time), {now}))
WHERE state = {state.ready} AND attempt > 0 AND id IN (
  SELECT r.id FROM {batch b: id text} JOIN runs r ON r.id = b.id {lock r}
)
RETURNING id;
