-- Ordering keys: runs with the same key execute one after the other. Table `turns` stores the holder of each key.

-- name: lock_turns
-- Lock ordering keys, create the missing ones, and return their holders. Locks are taken in key order, which avoids
-- deadlocks.
INSERT INTO turns (tenant, ordering_key)
SELECT b.tenant, b.ordering_key FROM {batch b: tenant text, ordering_key text} WHERE true
ORDER BY b.tenant, b.ordering_key
ON CONFLICT (tenant, ordering_key) DO UPDATE SET ordering_key = excluded.ordering_key
RETURNING tenant, ordering_key, holder;

-- name: turn_holders
-- The holders among these that are alive, and whether each could give up the key to an earlier run. A manual retry
-- cannot: it may have inherited the key from a run that no other run may overtake.
SELECT r.id, r.fire_time, CASE WHEN r.state <> {state.running} AND r.attempt = 0 AND r.origin <> {origin.retry} THEN 1 ELSE 0 END,
  r.job_id
FROM {batch b: id text} JOIN runs r ON r.id = b.id;

-- name: step_back
-- Take the ordering key from runs that no worker holds and that have had no attempt, because a run with an earlier fire
-- arrived.
UPDATE runs SET holds = holds + {hold.turn}, state = {state.blocked}
WHERE state <> {state.running} AND attempt = 0 AND (holds & {hold.turn}) = 0 AND id IN (SELECT id FROM {batch b: id text})
RETURNING id;

-- name: swap_places
-- Add the overlap hold to runs that wait for their ordering key already, because a run of their job comes before them.
UPDATE runs SET holds = runs.holds + {hold.overlap} FROM {batch b: job_id text, ordering_key text, after bigint, id text}
WHERE runs.job_id = b.job_id AND runs.ordering_key = b.ordering_key AND (runs.holds & {hold.overlap+turn}) = {hold.turn} AND runs.origin <> {origin.backfill}
  AND (runs.fire_time > b.after OR (runs.fire_time = b.after AND runs.id > b.id))
RETURNING runs.job_id;

-- name: all_wait
-- The given jobs whose live runs, apart from those of backfills and workflow tasks, are all blocked by the overlap
-- rule. The jobs are locked.
SELECT b.id FROM {batch b: id text} WHERE NOT EXISTS (
  SELECT 1 FROM runs r WHERE r.job_id = b.id AND (r.holds & {hold.overlap}) = 0 AND r.origin NOT IN ({origin.backfill}, {origin.task})
);

-- name: next_in_turn
-- The first live run under each ordering key, and its job if the overlap rule blocks the run. The keys are locked.
SELECT f.tenant, f.ordering_key, f.id, r.fire_time, CASE WHEN (r.holds & {hold.overlap}) = {hold.overlap} THEN r.job_id END FROM (
  SELECT b.tenant, b.ordering_key, (
    SELECT r.id FROM runs r WHERE r.tenant = b.tenant AND r.ordering_key = b.ordering_key
    ORDER BY r.fire_time, r.id LIMIT 1
  ) AS id FROM {batch b: tenant text, ordering_key text}
) AS f LEFT JOIN runs r ON r.id = f.id;

-- name: give_key
-- Give these runs their ordering key: a run with no other hold becomes ready.
UPDATE runs SET holds = holds - {hold.turn}, state = CASE WHEN holds = {hold.turn} THEN {state.ready} ELSE {state.blocked} END,
  eligible_at = {greatest}(COALESCE(due_at, fire_time), {now})
WHERE (holds & {hold.turn}) = {hold.turn} AND state = {state.blocked} AND id IN (SELECT id FROM {batch b: id text})
RETURNING id, job_id, tenant, state, attempt, fire_time, eligible_at, {now};

-- name: write_turns
-- Set the holders of ordering keys.
UPDATE turns SET holder = b.holder FROM {batch b: tenant text, ordering_key text, holder text}
WHERE turns.tenant = b.tenant AND turns.ordering_key = b.ordering_key;

-- name: turns_held
-- The ordering keys that these runs hold, live or finished.
SELECT t.tenant, t.ordering_key FROM {batch b: id text} JOIN turns t ON t.holder = b.id;

-- name: keys_of_jobs
-- The ordering keys of the live runs of jobs.
SELECT DISTINCT r.tenant, r.ordering_key FROM {batch b: id text} JOIN runs r ON r.job_id = b.id
WHERE r.ordering_key IS NOT NULL;

-- name: dead_holders
-- The ordering keys that failed or dead runs of these jobs hold until a user retries or discards them, so that later
-- runs wait.
SELECT t.tenant, t.ordering_key, t.holder, h.job_id FROM {batch b: id text} JOIN history h ON h.job_id = b.id
JOIN turns t ON t.holder = h.id AND t.holder IS NOT NULL
WHERE h.status IN ({gave_up}) AND h.retried_as IS NULL AND h.discarded_at IS NULL;

-- name: forget_turns
-- Delete ordering keys without a holder and without live runs.
DELETE FROM turns WHERE (tenant, ordering_key) IN (
  SELECT t.tenant, t.ordering_key FROM turns t WHERE t.holder IS NULL AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r.tenant = t.tenant AND r.ordering_key = t.ordering_key
  ) LIMIT :limit {skip_locked}
);
