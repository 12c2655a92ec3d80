-- Ordering keys: whose turn it is.

-- name: lock_turns
-- Keep the turns of keys from every other writer, in the order of the keys, so that nobody waits in a circle.
INSERT INTO turns (tenant, ordering_key)
SELECT b.tenant, b.ordering_key FROM {batch b: tenant text, ordering_key text} WHERE true
ORDER BY b.tenant, b.ordering_key
ON CONFLICT (tenant, ordering_key) DO UPDATE SET ordering_key = excluded.ordering_key
RETURNING tenant, ordering_key, holder;

-- name: turn_holders
-- The holders among these that are alive, and whether each could let another go first. One that repeats another may
-- have inherited the turn of a run that nobody else may overtake.
SELECT r.id, r.fire_time, CASE WHEN r.state <> {state.running} AND r.attempt = 0 AND r.origin <> {origin.retry} THEN 1 ELSE 0 END,
  r.job_id
FROM {batch b: id text} JOIN runs r ON r.id = b.id;

-- name: step_back
-- Take the turn from runs that nobody has claimed yet: an earlier one came.
UPDATE runs SET holds = holds + {hold.turn}, state = {state.blocked}
WHERE state <> {state.running} AND attempt = 0 AND (holds & {hold.turn}) = 0 AND id IN (SELECT id FROM {batch b: id text})
RETURNING id;

-- name: step_aside
-- Runs that wait for their turn under a key now wait for another run of their job, too, which comes before them.
UPDATE runs SET holds = runs.holds + {hold.overlap} FROM {batch b: job_id text, ordering_key text, after bigint, id text}
WHERE runs.job_id = b.job_id AND runs.ordering_key = b.ordering_key AND (runs.holds & {hold.overlap+turn}) = {hold.turn} AND runs.origin <> {origin.backfill}
  AND (runs.fire_time > b.after OR (runs.fire_time = b.after AND runs.id > b.id))
RETURNING runs.job_id;

-- name: all_wait
-- The jobs among these all of whose runs wait for another one of their job. The jobs are locked.
SELECT b.id FROM {batch b: id text} WHERE NOT EXISTS (
  SELECT 1 FROM runs r WHERE r.job_id = b.id AND (r.holds & {hold.overlap}) = 0 AND r.origin NOT IN ({origin.backfill}, {origin.task})
);

-- name: next_in_turn
-- The first live run under each key; and its job, if it waits for another run of that. The turns are locked.
SELECT f.tenant, f.ordering_key, f.id, r.fire_time, CASE WHEN (r.holds & {hold.overlap}) = {hold.overlap} THEN r.job_id END FROM (
  SELECT b.tenant, b.ordering_key, (
    SELECT r.id FROM runs r WHERE r.tenant = b.tenant AND r.ordering_key = b.ordering_key
    ORDER BY r.fire_time, r.id LIMIT 1
  ) AS id FROM {batch b: tenant text, ordering_key text}
) AS f LEFT JOIN runs r ON r.id = f.id;

-- name: give_turn
-- It is the turn of these runs.
UPDATE runs SET holds = holds - {hold.turn}, state = CASE WHEN holds = {hold.turn} THEN {state.ready} ELSE {state.blocked} END,
  eligible_at = {greatest}(COALESCE(due_at, fire_time), {now})
WHERE (holds & {hold.turn}) = {hold.turn} AND state = {state.blocked} AND id IN (SELECT id FROM {batch b: id text});

-- name: write_turns
-- Record whose turn it is.
UPDATE turns SET holder = b.holder FROM {batch b: tenant text, ordering_key text, holder text}
WHERE turns.tenant = b.tenant AND turns.ordering_key = b.ordering_key;

-- name: turns_held
-- The keys whose turn these runs have, finished or not.
SELECT t.tenant, t.ordering_key FROM {batch b: id text} JOIN turns t ON t.holder = b.id;

-- name: keys_of_jobs
-- The ordering keys of the live runs of jobs.
SELECT DISTINCT r.tenant, r.ordering_key FROM {batch b: id text} JOIN runs r ON r.job_id = b.id
WHERE r.ordering_key IS NOT NULL;

-- name: dead_holders
-- The keys under which a finished run of these jobs keeps others from their turn.
SELECT t.tenant, t.ordering_key, t.holder, h.job_id FROM {batch b: id text} JOIN history h ON h.job_id = b.id
JOIN turns t ON t.holder = h.id AND t.holder IS NOT NULL
WHERE h.status IN ({gave_up}) AND h.retried_as IS NULL AND h.discarded_at IS NULL;

-- name: forget_turns
-- Drop keys that nobody uses any more.
DELETE FROM turns WHERE (tenant, ordering_key) IN (
  SELECT t.tenant, t.ordering_key FROM turns t WHERE t.holder IS NULL AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r.tenant = t.tenant AND r.ordering_key = t.ordering_key
  ) LIMIT :most {skip_locked}
);
