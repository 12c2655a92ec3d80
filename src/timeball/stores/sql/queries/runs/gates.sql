-- Gates: limits that runs share. Blocked runs wait there for a concurrency permit, a rate token, or a host.

-- name: failing_hosts
-- Hosts whose last call failed, at most :limit.
SELECT tenant, gate FROM gates WHERE failures > 0 LIMIT :limit;

-- name: gates_that_exist
-- The given gates that exist.
SELECT g.tenant, g.gate FROM {batch b: tenant text, gate text}
JOIN gates g ON g.tenant = b.tenant AND g.gate = b.gate;

-- name: take_gates
-- Lock and return gates, except those that another transaction has locked.
SELECT {columns gates g} FROM {batch b: tenant text, gate text}
JOIN gates g ON g.tenant = b.tenant AND g.gate = b.gate {skip_locked};

-- name: new_gates
-- Create the gates that do not exist.
INSERT INTO gates (tenant, gate) SELECT b.tenant, b.gate FROM {batch b: tenant text, gate text} WHERE true
ORDER BY b.tenant, b.gate ON CONFLICT DO NOTHING;

-- name: lock_gates
-- Lock gates, and create the missing ones. Locks are taken in key order, which avoids deadlocks.
INSERT INTO gates (tenant, gate) SELECT b.tenant, b.gate FROM {batch b: tenant text, gate text} WHERE true
ORDER BY b.tenant, b.gate ON CONFLICT (tenant, gate) DO UPDATE SET gate = excluded.gate
RETURNING {columns gates gates};

-- name: gates_to_open
-- Lock and return gates whose check time (`look_at`) has come, except those that another transaction has locked.
SELECT {columns gates g} FROM gates g WHERE g.look_at IS NOT NULL AND g.look_at <= {now}
ORDER BY g.look_at LIMIT :limit {skip_locked};

-- name: next_look_at
-- The earliest check time of all gates.
SELECT look_at FROM gates WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1;

-- name: gates_probed_by
-- The hosts that these runs probe after a failure.
SELECT g.tenant, g.gate FROM {batch b: id text} JOIN gates g ON g.probe = b.id AND g.probe IS NOT NULL;

-- name: write_gates
-- Write the new state of gates. Their rows are locked.
UPDATE gates SET capacity = b.capacity, pace = b.pace, spent_until = b.spent_until, failures = b.failures,
  failed_at = b.failed_at, open_until = b.open_until, rests = b.rests, probe = b.probe, look_at = b.look_at
FROM {batch b: tenant text, gate text, capacity bigint, pace bigint, spent_until bigint, failures bigint,
  failed_at bigint, open_until bigint, rests bigint, probe text, look_at bigint}
WHERE gates.tenant = b.tenant AND gates.gate = b.gate;

-- name: permits
-- The number of permits in use under each concurrency key. A claim locks the gates before; a diagnosis does not.
SELECT b.tenant, b.permit, (SELECT COUNT(*) FROM runs r WHERE r.tenant = b.tenant AND r.permit = b.permit)
FROM {batch b: tenant text, permit text};

-- name: park
-- Block runs at gates. Their rows are locked. A run that waited at a gate before keeps its place in the queue.
UPDATE runs SET state = {state.blocked}, holds = runs.holds + {hold.gate}, gate = b.gate, gate_rank = COALESCE(runs.gate_rank, b.place)
FROM {batch b: id text, gate text, place bigint} WHERE runs.id = b.id AND runs.state = {state.ready}
RETURNING runs.id, runs.job_id, runs.tenant, runs.state, runs.attempt, runs.fire_time, runs.eligible_at, {now};

-- name: first_at_gate
-- Lock and return the first runs in the queue of a gate, except those that another transaction has locked.
SELECT r.id FROM runs r
WHERE r.tenant = :tenant AND r.gate = :gate AND r.gate IS NOT NULL AND r.state = {state.blocked} AND (r.holds & {hold.gate}) = {hold.gate}
ORDER BY r.gate_rank, r.id LIMIT :limit {skip_locked};

-- name: queue_at_gate
-- Whether a run waits at a gate, and how many runs passed it within :lately and are not claimed yet.
SELECT
  EXISTS (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.gate = :gate AND r.gate IS NOT NULL AND r.state = {state.blocked} AND (r.holds & {hold.gate}) = {hold.gate}),
  (SELECT COUNT(*) FROM runs r
    WHERE r.tenant = :tenant AND r.gate = :gate AND r.gate IS NOT NULL AND r.state = {state.ready}
      AND r.let_at > {now} - :lately);

-- name: let_through
-- Let runs pass their gate. Their rows are locked. Column `gate` keeps the name of the gate until the run is claimed.
UPDATE runs SET holds = holds - {hold.gate}, state = CASE WHEN holds = {hold.gate} THEN {state.ready} ELSE {state.blocked} END,
  let_at = {now}
WHERE (holds & {hold.gate}) = {hold.gate} AND state = {state.blocked} AND id IN (SELECT id FROM {batch b: id text})
RETURNING id, job_id, tenant, state, attempt, fire_time, eligible_at, {now};

-- name: hold_shares
-- Record the concurrency permit and the CPU and memory that claimed runs hold.
UPDATE runs SET permit = b.permit, needs = b.needs FROM {batch b: id text, permit text, needs text}
WHERE runs.id = b.id;

-- name: forget_gates
-- Delete gates at which no run waits and that hold no state.
DELETE FROM gates WHERE (tenant, gate) IN (
  SELECT g.tenant, g.gate FROM gates g
  WHERE g.look_at IS NULL AND g.probe IS NULL AND g.spent_until < {now}
    AND g.failed_at < {now} - :lately AND COALESCE(g.open_until, 0) < {now} - :lately
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant = g.tenant AND r.gate = g.gate)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant = g.tenant AND r.permit = g.gate)
  LIMIT :limit {skip_locked}
);

-- name: too_late
-- Runs that have had no attempt and whose start deadline has passed.
SELECT id FROM runs WHERE start_by IS NOT NULL AND state <> {state.running} AND attempt = 0 AND start_by < {now}
ORDER BY start_by LIMIT :limit;

-- name: next_expiry
-- The earliest start deadline of the runs that have had no attempt.
SELECT start_by FROM runs WHERE start_by IS NOT NULL AND state <> {state.running} AND attempt = 0
ORDER BY start_by LIMIT 1;

-- name: keep_profiles
-- Record that these placement profiles are used now.
INSERT INTO profiles (profile, used_at) SELECT b.profile, {now} FROM {batch b: profile text} WHERE true
ORDER BY b.profile ON CONFLICT (profile) DO UPDATE SET used_at = excluded.used_at;

-- name: forget_profiles
-- Delete placement profiles without runs that were not used for long.
DELETE FROM profiles WHERE profile IN (
  SELECT p.profile FROM profiles p
  WHERE p.used_at < {now} - :long AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.profile = p.profile)
  LIMIT :limit {skip_locked}
);
