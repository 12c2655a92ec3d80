-- Planning: fires become runs and ledger rows. Also the overlap rule.

-- name: due_jobs
-- Jobs that the planner must plan, longest overdue first. There is no lower bound: a job is found however long it is
-- overdue.
SELECT {columns jobs j} FROM jobs j
WHERE j.state = {job.active} AND j.plan_at IS NOT NULL AND j.plan_at <= {now} ORDER BY j.plan_at LIMIT :limit;

-- name: next_plan_at
-- The earliest time at which a job must be planned.
SELECT plan_at FROM jobs WHERE state = {job.active} AND plan_at IS NOT NULL ORDER BY plan_at LIMIT 1;

-- name: cancelled_ahead
-- Fires of jobs, from their next fire on, that have a verdict already: they were cancelled in advance, or executed
-- while the store's clock was ahead.
SELECT h.job_id, h.fire_time
FROM {batch b: id text, since bigint} JOIN history h ON h.job_id = b.id AND h.fire_time >= b.since
WHERE h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: pauses_over
-- Paused jobs whose pause has ended, ordered by its end, after a given position in that order.
SELECT {columns jobs j} FROM jobs j
WHERE j.state = {job.paused} AND j.paused_until IS NOT NULL AND j.paused_until <= {now} AND (j.paused_until, j.id) > (:ended, :id)
ORDER BY j.paused_until, j.id LIMIT :limit;

-- name: next_resume_at
-- The earliest time at which a pause ends.
SELECT paused_until FROM jobs WHERE state = {job.paused} AND paused_until IS NOT NULL ORDER BY paused_until LIMIT 1;

-- name: lock_planned
-- Lock the jobs that are unchanged since their plan was made. This check makes every fire happen exactly once.
SELECT j.id, j.last_span
FROM {batch b: id text, version bigint, next_fire_at bigint, owed bigint} JOIN jobs j ON j.id = b.id
WHERE j.state = {job.active} AND j.version = b.version AND j.next_fire_at {same} b.next_fire_at AND j.owed {same} b.owed
{lock j};

-- name: move_jobs
-- Move planned jobs to their next fire. Their rows are locked.
UPDATE jobs SET next_fire_at = b.next_fire_at, plan_at = b.plan_at, last_span = b.last_span, fired = jobs.fired + b.fires,
  owed = b.owed
FROM {batch b: id text, next_fire_at bigint, plan_at bigint, last_span text, fires bigint, owed bigint} WHERE jobs.id = b.id;

-- name: put_off
-- Delay jobs whose planning failed, unless another server has planned or changed them.
UPDATE jobs SET plan_at = {now} + b.wait FROM {batch b: id text, version bigint, plan_at bigint, wait bigint}
WHERE jobs.id = b.id AND jobs.state = {job.active} AND jobs.version = b.version AND jobs.plan_at = b.plan_at
RETURNING jobs.id, jobs.version, jobs.plan_at;

-- name: note_planning_failures
-- Record why planning failed. `since` stays the same while failures follow each other.
INSERT INTO planning_failures (job_id, version, plan_at, failures, since, reason)
SELECT b.id, b.version, b.plan_at, b.failures, {now}, b.reason
FROM {batch b: id text, version bigint, plan_at bigint, failures bigint, reason text} WHERE true
ON CONFLICT (job_id) DO UPDATE
SET version = excluded.version, plan_at = excluded.plan_at, failures = excluded.failures, reason = excluded.reason,
  since = CASE WHEN excluded.failures > 1 THEN planning_failures.since ELSE excluded.since END;

-- name: planning_failures
-- The current planning failures of jobs.
SELECT f.job_id, j.tenant, f.reason, f.failures, f.since, f.plan_at
FROM {batch b: id text} JOIN planning_failures f ON f.job_id = b.id JOIN jobs j ON j.id = b.id
WHERE j.state = {job.active} AND j.version = f.version AND j.plan_at = f.plan_at;

-- name: plan_failed_now
-- Plan all delayed jobs now. Called when a server starts: its version may plan them without a failure.
UPDATE jobs SET plan_at = {now} FROM planning_failures f
WHERE jobs.id = f.job_id AND jobs.state = {job.active} AND jobs.version = f.version AND jobs.plan_at = f.plan_at
  AND jobs.plan_at > {now};

-- name: forget_planning_failures
-- Delete planning failures of jobs that have been planned, changed or cancelled since.
DELETE FROM planning_failures WHERE job_id IN (
  SELECT f.job_id FROM planning_failures f LEFT JOIN jobs j ON j.id = f.job_id
  WHERE j.id IS NULL OR j.state <> {job.active} OR j.version <> f.version OR j.plan_at IS NULL OR j.plan_at <> f.plan_at
  LIMIT :limit
);

-- name: make_serial
-- Mark the live runs of jobs as serial: each ends under the lock on its job, because its end may unblock the next run.
UPDATE runs SET serial = 1 FROM {batch b: id text} WHERE runs.job_id = b.id AND runs.serial = 0;

-- name: block_future
-- Block runs with future fires that no worker holds and that have had no attempt. The overlap rule decides about them
-- when they are due.
UPDATE runs SET state = {state.blocked}, holds = runs.holds + {hold.overlap} FROM {batch b: id text}
WHERE runs.job_id = b.id AND runs.state <> {state.running} AND (runs.holds & {hold.overlap}) = 0
  AND runs.fire_time > {now} AND runs.attempt = 0
RETURNING runs.job_id, runs.fire_time;

-- name: plan_no_later
-- Plan jobs no later than an instant, for example because a blocked run is due then.
UPDATE jobs SET plan_at = b.plan_at FROM {batch b: id text, plan_at bigint}
WHERE jobs.id = b.id AND (jobs.plan_at IS NULL OR jobs.plan_at > b.plan_at);

-- name: live_runs_of_jobs
-- The live runs of jobs in the order of their fires, and whether each belongs to an older version of its job. Runs of
-- backfills and of workflow tasks are left out: the overlap rule does not apply to them.
SELECT r.job_id, r.id, r.holds & {hold.overlap}, r.fire_time, r.created_at, CASE WHEN r.version < j.version THEN 1 ELSE 0 END,
  r.tenant, r.ordering_key, r.holds & {hold.turn}
FROM {batch b: id text} JOIN jobs j ON j.id = b.id JOIN runs r ON r.job_id = b.id
WHERE r.origin NOT IN ({origin.backfill}, {origin.task}) ORDER BY r.job_id, r.fire_time, r.id;

-- name: now
-- The time of the store.
SELECT {now};

-- name: now_and_health
-- The time of the store, whether any host has recent failures, whether a run probes a host, and whether any job follows
-- another.
SELECT {now}, EXISTS (SELECT 1 FROM gates WHERE failures > 0), EXISTS (SELECT 1 FROM gates WHERE probe IS NOT NULL),
  EXISTS (SELECT 1 FROM follows);

-- name: unblock
-- Remove the overlap hold of these runs. A run with no other hold becomes ready.
UPDATE runs SET holds = holds - {hold.overlap}, state = CASE WHEN holds = {hold.overlap} THEN {state.ready} ELSE {state.blocked} END,
  eligible_at = {greatest}(COALESCE(due_at, fire_time), {now})
WHERE (holds & {hold.overlap}) = {hold.overlap} AND state = {state.blocked} AND id IN (SELECT id FROM {batch b: id text})
RETURNING id, job_id, tenant, state, attempt, fire_time, eligible_at, {now};

-- name: release
-- Unblock the first run of each job whose live runs, apart from those of backfills and workflow tasks, are all blocked by
-- the overlap rule. The jobs are locked.
UPDATE runs SET holds = holds - {hold.overlap}, state = CASE WHEN holds = {hold.overlap} THEN {state.ready} ELSE {state.blocked} END,
  eligible_at = {greatest}(COALESCE(due_at, fire_time), {now})
WHERE (holds & {hold.overlap}) = {hold.overlap} AND state = {state.blocked} AND id IN (
  SELECT (
    SELECT h.id FROM runs h WHERE h.job_id = b.id AND (h.holds & {hold.overlap}) = {hold.overlap} ORDER BY h.fire_time, h.id LIMIT 1
  ) FROM {batch b: id text}
  WHERE NOT EXISTS (SELECT 1 FROM runs o WHERE o.job_id = b.id AND (o.holds & {hold.overlap}) = 0 AND o.origin NOT IN ({origin.backfill}, {origin.task}))
) RETURNING id, job_id, tenant, state, attempt, fire_time, eligible_at, {now};

-- name: close_spans
-- Close the last ledger span of these jobs: later fires start a new row.
UPDATE jobs SET last_span = NULL WHERE last_span IS NOT NULL AND id IN (SELECT id FROM {batch b: id text});

-- name: spans
-- Lock and return the newest ledger rows of jobs, so that more fires can be added and maintenance does not delete them.
SELECT h.id, h.verdict, h.reason, h.fire_until FROM {batch b: id text} JOIN history h ON h.id = b.id
WHERE {within h.id: b} {lock h};

-- name: grow_spans
-- Add fires to ledger rows. The retention of a row begins anew: it is as old as its newest fire.
UPDATE history SET fire_until = b.fire_until, fires = history.fires + b.fires, finished_at = {now}
FROM {batch b: id text, fire_until bigint, fires bigint} WHERE history.id = b.id AND {within history.id: b};

-- name: run_statuses
-- The statuses of finished runs.
SELECT h.id, h.status FROM {batch b: id text} {each_within history h: b.id};

-- name: live_states
-- The states of live runs.
SELECT r.id, r.state, r.attempt, COALESCE(r.due_at, r.fire_time), r.eligible_at, {now}
FROM {batch b: id text} JOIN runs r ON r.id = b.id;
