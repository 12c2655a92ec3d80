-- Changes of stored times when the clock of the machine steps. Only SQLite needs them, see `stores/sqlite/clock.py`.

-- name: move_leases
-- Move leases and reservations of workers, so that the remaining time stays the same.
UPDATE workers SET lease_until = lease_until + :step, reserved_until = reserved_until + :step
WHERE lapsed <> {lease.lapsed} AND lease_until > {now};

-- name: move_leads
-- Move the ends of the leases of servers, such as that of maintenance, so that the remaining time stays the same.
UPDATE leases SET until = until + :step WHERE until > {now};

-- name: move_gates
-- Move the times of gates: the bucket of a rate, the pause of a host and the age of its failures are durations, not
-- dates.
UPDATE gates SET
  spent_until = CASE WHEN spent_until > {now} THEN spent_until + :step ELSE spent_until END,
  open_until = CASE WHEN open_until > {now} THEN open_until + :step ELSE open_until END,
  look_at = CASE WHEN look_at > {now} THEN look_at + :step ELSE look_at END,
  failed_at = CASE WHEN failed_at > 0 THEN failed_at + :step ELSE 0 END;

-- name: move_let_through
-- Move the times at which runs passed a gate, so that recent ones still count as recent.
UPDATE runs SET let_at = let_at + :step WHERE gate IS NOT NULL AND state = {state.ready} AND let_at IS NOT NULL;

-- name: move_attempts
-- Move the claim and start times of running attempts, so that their elapsed time stays the same. Timeouts count from
-- them.
UPDATE runs SET claimed_at = claimed_at + :step, attempt_started_at = attempt_started_at + :step WHERE state = {state.running};

-- name: move_pauses
-- Move the times at which attempts were suspended, so that the elapsed time stays the same.
UPDATE preemptions SET paused_at = paused_at + :step WHERE ended_at IS NULL AND paused_at IS NOT NULL;

-- name: move_backoffs
-- Move retry delays, so that the remaining time stays the same. Before its first attempt a run waits for a date, which
-- does not move.
UPDATE runs SET eligible_at = eligible_at + :step
WHERE attempt > 0 AND state <> {state.running} AND eligible_at > {now};

-- name: keep_leases
-- Extend leases that were valid when the store was last used by the time for which it was not used.
UPDATE workers SET lease_until = lease_until + :away WHERE lapsed <> {lease.lapsed} AND lease_until > :mark;

-- name: cap_leases
-- Limit leases to their full length from now.
UPDATE workers SET lease_until = {now} + :longest WHERE lease_until > {now} + :longest;

-- The statements below set a store back whose clock was ahead. `:back` is how far it was ahead, `{now}` is the
-- corrected time.

-- name: runs_ahead
-- Live runs whose scheduled fire is in the future.
SELECT {columns runs r} FROM runs r WHERE r.fire_time > {now} AND r.origin IN ({origin.schedule}, {origin.catch_up});

-- name: set_back_runs
-- Move the future times of live runs back. The fire time of a scheduled run, or of a run of a backfill, does not move.
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
-- Move the future fire times of runs of jobs without a schedule back: such jobs fire on submit or when another job
-- ends.
UPDATE runs SET fire_time = fire_time - :back WHERE id {in b: text} AND fire_time > {now};

-- name: spans_ahead
-- Ledger rows of skipped fires of which some are in the future: their verdict is not final.
SELECT h.id, h.job_id, h.fire_time FROM history h
WHERE h.fire_until > {now} AND h.status = {status.skipped} AND h.attempt = 0 AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: drop_spans
-- Delete ledger rows whose fires are all in the future.
DELETE FROM history WHERE id {in b: text};

-- name: cut_spans
-- Shorten ledger rows of which some fires are in the future.
UPDATE history SET fire_until = b.fire_until, fires = b.fires
FROM {batch b: id text, fire_until bigint, fires bigint} WHERE history.id = b.id;

-- name: verdicts_ahead
-- Future fires that were executed or cancelled already.
SELECT h.job_id, h.fire_time FROM history h WHERE h.fire_time > {now} AND h.origin IN ({origin.schedule}, {origin.catch_up});

-- name: jobs_after
-- A page of jobs that are not cancelled.
SELECT {columns jobs j} FROM jobs j WHERE j.id > :after AND j.state <> {job.cancelled} ORDER BY j.id LIMIT :limit;

-- name: set_back_jobs
-- Limit the creation and change times of jobs to the corrected time.
UPDATE jobs SET created_at = {least}(created_at, {now}), updated_at = {least}(updated_at, {now})
WHERE created_at > {now} OR updated_at > {now};

-- name: set_back_workers
-- Limit the start times of workers, when they were last seen and when they were ordered to drain, to the corrected time.
UPDATE workers SET started_at = {least}(started_at, {now}), seen_at = {least}(seen_at, {now}),
  draining_since = CASE WHEN draining_since > {now} THEN {now} ELSE draining_since END
WHERE seen_at > {now} OR draining_since > {now};

-- name: set_back_follows
-- Move the newest fire times of jobs that follow others back, if they are in the future.
UPDATE follows SET last_at = last_at - :back WHERE last_at > {now};

-- name: set_back_echoes
-- Move the times of upstream events back, if they are in the future.
UPDATE echoes SET ended_at = CASE WHEN ended_at > {now} THEN ended_at - :back ELSE ended_at END,
  fire_time = CASE WHEN fire_time > {now} THEN fire_time - :back ELSE fire_time END;

-- name: set_back_preemptions
-- Limit the times of preemptions to the corrected time.
UPDATE preemptions SET asked_at = {least}(asked_at, {now}), paused_at = {least}(paused_at, {now}),
  ended_at = {least}(ended_at, {now});

-- name: set_back_keys
-- Move the times of bootstrap keys back if they are in the future, so that the newest key stays the newest.
UPDATE keys SET bootstrap_at = bootstrap_at - :back WHERE bootstrap_at > {now};

-- name: set_back_idempotency
-- Set future creation times of idempotency keys to now, so that the keys are kept for their full time.
UPDATE idempotency SET created_at = {now} WHERE created_at > {now};

-- name: set_back_versions
-- Set future replacement times of specs to now, so that the specs are kept for their full time.
UPDATE job_versions SET replaced_at = {least}(replaced_at, {now}),
  made_at = CASE WHEN made_at > {now} THEN {now} ELSE made_at END
WHERE replaced_at > {now} OR made_at > {now};

-- name: set_back_profiles
-- Set future times of use of placement profiles to now, so that the profiles are kept for their full time.
UPDATE profiles SET used_at = {now} WHERE used_at > {now};

-- name: set_back_calendars
-- Set future change times of calendars to now.
UPDATE calendars SET updated_at = {now} WHERE updated_at > {now};

-- name: note_verdicts_ahead
-- Record the instant up to which future fires may have a verdict already.
INSERT INTO meta (name, value) VALUES ('verdicts_until', :mark)
ON CONFLICT (name) DO UPDATE SET value = {greatest}(meta.value, excluded.value);

-- name: verdicts_until
-- The instant up to which future fires may have a verdict already.
SELECT value FROM meta WHERE name = 'verdicts_until';
