-- The store's time: what moves with a step of the clock. Only SQLite has such steps, see `sqlite_clock.py`.

-- name: move_leases
-- What is left of leases, and of the reservations of workers, stays the same.
UPDATE workers SET lease_until = lease_until + :step, reserved_until = reserved_until + :step
WHERE lapsed <> {lease.lapsed} AND lease_until > {now};

-- name: move_leads
-- The leases of housekeeping, likewise.
UPDATE leases SET until = until + :step WHERE until > {now};

-- name: move_gates
-- A rate's bucket, the rest of a host and its recent failures are lengths of time, not dates.
UPDATE gates SET
  spent_until = CASE WHEN spent_until > {now} THEN spent_until + :step ELSE spent_until END,
  open_until = CASE WHEN open_until > {now} THEN open_until + :step ELSE open_until END,
  look_at = CASE WHEN look_at > {now} THEN look_at + :step ELSE look_at END,
  failed_at = CASE WHEN failed_at > 0 THEN failed_at + :step ELSE 0 END;

-- name: move_let_through
-- Runs that were let through a gate lately still count there.
UPDATE runs SET let_at = let_at + :step WHERE gate IS NOT NULL AND state = {state.ready} AND let_at IS NOT NULL;

-- name: move_attempts
-- Attempts have been running for as long as before: how long they may take is counted from these.
UPDATE runs SET claimed_at = claimed_at + :step, attempt_started_at = attempt_started_at + :step WHERE state = {state.running};

-- name: move_pauses
-- Attempts that make room for others, likewise.
UPDATE preemptions SET paused_at = paused_at + :step WHERE ended_at IS NULL AND paused_at IS NOT NULL;

-- name: move_backoffs
-- What is left of a backoff stays the same. Before its first attempt a run waits for a date, which does not move.
UPDATE runs SET eligible_at = eligible_at + :step
WHERE attempt > 0 AND state <> {state.running} AND eligible_at > {now};

-- name: keep_leases
-- Leases that had not run out when the store was used last stood still since then.
UPDATE workers SET lease_until = lease_until + :away WHERE lapsed <> {lease.lapsed} AND lease_until > :mark;

-- name: cap_leases
-- Nothing is left of a lease beyond its full length.
UPDATE workers SET lease_until = {now} + :longest WHERE lease_until > {now} + :longest;

-- What follows sets a store back whose clock was ahead: `:back` is how far, `{now}` the time that counts from now on.

-- name: runs_ahead
-- Live runs for instants of a schedule that have not come.
SELECT {columns runs r} FROM runs r WHERE r.fire_time > {now} AND r.origin IN ({origin.schedule}, {origin.catch_up});

-- name: set_back_runs
-- Whatever happened to live runs happened earlier by that much. The instant of a schedule stays what it is.
UPDATE runs SET
  due_at = CASE WHEN COALESCE(due_at, fire_time) > {now} THEN COALESCE(due_at, fire_time) - :back ELSE due_at END,
  fire_time = CASE WHEN fire_time > {now} AND origin NOT IN ({origin.schedule}, {origin.catch_up}, {origin.backfill})
    THEN fire_time - :back ELSE fire_time END,
  eligible_at = CASE WHEN eligible_at > {now} THEN eligible_at - :back ELSE eligible_at END,
  created_at = {least}(created_at, {now}),
  claimed_at = CASE WHEN claimed_at > {now} THEN claimed_at - :back ELSE claimed_at END,
  started_at = CASE WHEN started_at > {now} THEN started_at - :back ELSE started_at END,
  attempt_started_at = CASE WHEN attempt_started_at > {now} THEN attempt_started_at - :back ELSE attempt_started_at END,
  cancel_requested_at = CASE WHEN cancel_requested_at > {now} THEN cancel_requested_at - :back ELSE cancel_requested_at END,
  start_by = CASE WHEN start_by > {now} THEN start_by - :back ELSE start_by END,
  let_at = CASE WHEN let_at > {now} THEN let_at - :back ELSE let_at END;

-- name: set_back_instants
-- Runs of jobs that have no schedule, but fire when they are submitted or another job ends.
UPDATE runs SET fire_time = fire_time - :back WHERE id {in b: text} AND fire_time > {now};

-- name: spans_ahead
-- Instants that never became an attempt, of which some have not come: it is not decided yet what becomes of those.
SELECT h.id, h.job_id, h.fire_time FROM history h
WHERE h.fire_until > {now} AND h.status = {status.skipped} AND h.attempt = 0 AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: drop_spans
-- None of their instants has come.
DELETE FROM history WHERE id {in b: text};

-- name: cut_spans
-- Some of their instants have not come.
UPDATE history SET fire_until = b.fire_until, fires = b.fires
FROM {batch b: id text, fire_until bigint, fires bigint} WHERE history.id = b.id;

-- name: verdicts_ahead
-- Instants that have not come, but have been executed or cancelled.
SELECT h.job_id, h.fire_time FROM history h WHERE h.fire_time > {now} AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: jobs_after
-- A page of the jobs that may fire.
SELECT {columns jobs j} FROM jobs j WHERE j.id > :after AND j.state <> {job.cancelled} ORDER BY j.id LIMIT :most;

-- name: set_back_jobs
-- No job was created or changed in the future.
UPDATE jobs SET created_at = {least}(created_at, {now}), updated_at = {least}(updated_at, {now})
WHERE created_at > {now} OR updated_at > {now};

-- name: set_back_workers
-- No worker was seen in the future.
UPDATE workers SET started_at = {least}(started_at, {now}), seen_at = {least}(seen_at, {now}) WHERE seen_at > {now};

-- name: set_back_follows
-- What jobs follow has ended by now.
UPDATE follows SET last_at = last_at - :back WHERE last_at > {now};

-- name: set_back_echoes
-- Likewise.
UPDATE echoes SET ended_at = CASE WHEN ended_at > {now} THEN ended_at - :back ELSE ended_at END,
  fire_time = CASE WHEN fire_time > {now} THEN fire_time - :back ELSE fire_time END;

-- name: set_back_preemptions
-- No run was asked to make room in the future.
UPDATE preemptions SET asked_at = {least}(asked_at, {now}), paused_at = {least}(paused_at, {now}),
  ended_at = {least}(ended_at, {now});

-- name: set_back_keys
-- Which key of a server's settings is the newest stays the same.
UPDATE keys SET bootstrap_at = bootstrap_at - :back WHERE bootstrap_at > {now};

-- name: set_back_idempotency
-- From here on, so that it is kept for its full time.
UPDATE idempotency SET created_at = {now} WHERE created_at > {now};

-- name: set_back_versions
-- Likewise.
UPDATE job_versions SET replaced_at = {now} WHERE replaced_at > {now};

-- name: set_back_profiles
-- Likewise.
UPDATE profiles SET used_at = {now} WHERE used_at > {now};

-- name: set_back_calendars
-- No calendar was changed in the future.
UPDATE calendars SET updated_at = {now} WHERE updated_at > {now};

-- name: note_verdicts_ahead
-- Up to when there may be verdicts on instants that have not come.
INSERT INTO meta (name, value) VALUES ('verdicts_until', :mark)
ON CONFLICT (name) DO UPDATE SET value = {greatest}(meta.value, excluded.value);

-- name: verdicts_until
-- The same.
SELECT value FROM meta WHERE name = 'verdicts_until';
