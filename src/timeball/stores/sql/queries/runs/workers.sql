-- Workers: sessions and their leases.

-- name: register
-- Insert a session with a lease that starts now. It is draining if the session that it replaces is, and the same key
-- opened both.
INSERT INTO workers (
  session, name, slots, labels, tasks, version, started_at, seen_at, lease_until, cpu, memory, dedicated, key_id,
  pools, draining_since
)
SELECT
  :session, :name, CAST(:slots AS bigint), :labels, :tasks, :version, t.now, t.now, t.now + :lease,
  CAST(:cpu AS bigint), CAST(:memory AS bigint), CAST(:dedicated AS bigint), :key,
  CAST(:pools AS text), (SELECT w.draining_since FROM workers w WHERE w.session = :after AND w.key_id = :key)
FROM (SELECT {now} AS now) AS t WHERE true
ON CONFLICT (session) DO NOTHING
RETURNING draining_since;

-- name: drain
-- Order the worker of a session to drain. It is not reserved for a run any more, so that another worker can be.
UPDATE workers SET draining_since = COALESCE(draining_since, {now}), reserved_for = NULL, reserved_until = 0
WHERE session = :session AND lapsed = {lease.held} AND lease_until > {now} RETURNING session;

-- name: renew
-- Extend leases that have not lapsed. Only the key that opened a session may extend its lease. If an older server opened
-- the session, it has no key, and any key may extend its lease.
UPDATE workers SET lease_until = {now} + :lease, seen_at = {now}
FROM {batch b: session text, key_id text}
WHERE workers.session = b.session AND (workers.key_id IS NULL OR workers.key_id = b.key_id)
  AND workers.lapsed = {lease.held} AND workers.lease_until > {now}
RETURNING workers.session, workers.name, workers.key_id, workers.draining_since, workers.pools;

-- name: leases_of_sessions
-- The lease ends of sessions that have not lapsed, for the keys that opened them.
SELECT w.session, w.name, w.key_id, w.lease_until, w.draining_since, w.pools FROM {batch b: session text, key_id text}
JOIN workers w ON w.session = b.session AND w.key_id = b.key_id WHERE w.lapsed = {lease.held};

-- name: extend_leases
-- Write leases that were renewed while the database accepted no writes.
UPDATE workers SET lease_until = b.until FROM {batch b: session text, until bigint}
WHERE workers.session = b.session AND workers.lapsed = {lease.held} AND workers.lease_until < b.until;

-- name: lapse
-- Mark sessions whose lease has run out. After this no renewal restores the session, however late its commit.
UPDATE workers SET lapsed = {lease.lapsed} WHERE session IN (
  SELECT session FROM workers WHERE lapsed = {lease.held} AND lease_until <= {now} ORDER BY session {skip_locked}
) RETURNING session, name, labels, dedicated;

-- name: lost_runs
-- Running attempts whose session has no valid lease. A session whose key was revoked keeps its lease until it runs out.
-- An attempt counts as ended when its lease ran out, which may be long ago if no server was running since.
SELECT r.id, r.job_id, r.attempt, r.token, r.session, r.serial, r.tenant, r.ordering_key,
  COALESCE((SELECT {least}(w.lease_until, {now}) FROM workers w WHERE w.session = r.session), {now}),
  r.attempt_started_at
FROM runs r WHERE r.state = {state.running} AND r.session <> {session.weaver} AND NOT EXISTS (
  SELECT 1 FROM workers w
  WHERE w.session = r.session AND (w.lapsed = {lease.held} OR (w.lapsed = {lease.revoked} AND w.lease_until > {now}))
) LIMIT :limit;

-- name: held_for_long
-- A page of attempts that were claimed longer than a lease ago, after a given session and run. Each row has the timeout
-- and the grace period of the spec, and for how long the attempt was suspended by preemption.
SELECT c.id, c.job_id, c.attempt, c.token, c.session, c.serial, c.tenant, c.ordering_key, {now}, c.attempt_started_at,
  c.claimed_at, {timeout_of c.spec}, {grace_of c.spec}, c.stood_still
FROM (
  SELECT r.id, r.job_id, r.attempt, r.token, r.session, r.serial, r.tenant, r.ordering_key, r.attempt_started_at,
    r.claimed_at, COALESCE(r.spec, j.spec) AS spec,
    CASE WHEN r.preemptible IS NULL THEN 0 ELSE (
      SELECT CAST(COALESCE(SUM(COALESCE(p.ended_at, {now}) - p.paused_at), 0) AS bigint)
      FROM preemptions p WHERE p.run_id = r.id AND p.token = r.token
    ) END AS stood_still
  FROM runs r JOIN jobs j ON j.id = r.job_id
  WHERE r.state = {state.running} AND r.session <> {session.weaver} AND (r.session, r.id) > (:session, :id)
    AND r.claimed_at <= {now} - :lease
  ORDER BY r.session, r.id LIMIT :limit
) AS c;

-- name: end_session
-- End a lease now, for the key that opened the session.
UPDATE workers SET lapsed = {lease.lapsed}, lease_until = {least}(lease_until, {now})
WHERE session = :session AND (key_id IS NULL OR key_id = :key) RETURNING labels, dedicated;

-- name: end_sessions_of_key
-- Stop renewals and assignments for all sessions of a revoked key. They keep their attempts until their leases run out,
-- because a worker may still execute them.
UPDATE workers SET lapsed = {lease.revoked} WHERE key_id = :id AND lapsed = {lease.held};

-- name: held_by
-- The attempts of a session that were claimed for polls before a given one.
SELECT r.id, r.job_id, r.attempt, r.token, r.session, r.serial, r.tenant, r.ordering_key, {now}
FROM runs r WHERE r.session = :session AND r.state = {state.running} AND r.poll < :before;

-- name: forget_sessions
-- Delete sessions that lapsed before an instant and hold no attempt.
DELETE FROM workers WHERE lease_until < :before AND lease_until <= {now} AND NOT EXISTS (
  SELECT 1 FROM runs r WHERE r.session = workers.session AND r.state = {state.running}
) RETURNING session;

-- name: workers
-- Sessions with a valid lease whose API key was not revoked, newest first.
SELECT w.session, w.name, w.slots, w.labels, w.tasks, w.version, w.started_at, w.seen_at, w.lease_until,
  w.cpu, w.memory, w.dedicated, CASE WHEN w.reserved_until > {now} AND EXISTS (
    SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile = w.reserved_for AND r.eligible_at <= {now}
  ) THEN w.reserved_for END, w.key_id, w.draining_since, w.pools
FROM workers w WHERE w.lapsed = {lease.held} AND w.lease_until > {now} ORDER BY w.started_at DESC, w.session DESC;

-- name: gone_workers
-- The last :limit sessions without a valid lease, and whether the lease ran out: a worker that says goodbye ends its
-- lease before that.
SELECT w.session, w.name, w.slots, w.labels, w.tasks, w.version, w.started_at, w.seen_at, w.lease_until,
  w.cpu, w.memory, w.dedicated, NULL, w.key_id, w.draining_since, w.pools,
  CASE WHEN w.lease_until - w.seen_at >= :lease THEN 1 ELSE 0 END
FROM workers w WHERE w.lease_until <= {now} ORDER BY w.lease_until DESC, w.session DESC LIMIT :limit;

-- name: shares_used
-- The number of running attempts of each session, by placement profile.
SELECT r.session, r.profile, COUNT(*) FROM runs r
WHERE r.state = {state.running} AND r.session <> {session.weaver} GROUP BY r.session, r.profile;
