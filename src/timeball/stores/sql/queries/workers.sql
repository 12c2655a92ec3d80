-- Workers: sessions and their leases.

-- name: register
-- A new session, with a lease that starts now.
INSERT INTO workers (
  session, name, slots, labels, tasks, version, started_at, seen_at, lease_until, cpu, memory, dedicated
)
SELECT
  :session, :name, CAST(:slots AS bigint), :labels, :tasks, :version, t.now, t.now, t.now + :lease,
  CAST(:cpu AS bigint), CAST(:memory AS bigint), CAST(:dedicated AS bigint)
FROM (SELECT {now} AS now) AS t WHERE true
ON CONFLICT (session) DO NOTHING;

-- name: renew
-- Extend leases that have not lapsed.
UPDATE workers SET lease_until = {now} + :lease, seen_at = {now}
WHERE session {in b: text} AND lapsed = 0 AND lease_until > {now} RETURNING session, name;

-- name: lapse
-- Mark sessions whose lease has run out: from here on no renewal, however late its commit, brings one back.
UPDATE workers SET lapsed = 1 WHERE session IN (
  SELECT session FROM workers WHERE lapsed = 0 AND lease_until <= {now} ORDER BY session {skip_locked}
);

-- name: lost_runs
-- Runs that are held by nobody who has a lease.
SELECT r.id, r.job_id, r.attempt, r.token, r.serial, r.tenant, r.ordering_key, {now}, r.attempt_started_at
FROM runs r WHERE r.state = 'running' AND r.session <> 'weaver' AND NOT EXISTS (
  SELECT 1 FROM workers w WHERE w.session = r.session AND w.lapsed = 0
) LIMIT :most;

-- name: end_session
-- Let a lease lapse now.
UPDATE workers SET lapsed = 1, lease_until = {least}(lease_until, {now}) WHERE session = :session;

-- name: held_by
-- What a session holds that was claimed for polls before one.
SELECT r.id, r.job_id, r.attempt, r.token, r.serial, r.tenant, r.ordering_key, {now}
FROM runs r WHERE r.session = :session AND r.state = 'running' AND r.poll < :before;

-- name: forget_sessions
-- Drop sessions that lapsed before an instant and hold nothing.
DELETE FROM workers WHERE lease_until < :before AND lease_until <= {now} AND NOT EXISTS (
  SELECT 1 FROM runs r WHERE r.session = workers.session AND r.state = 'running'
) RETURNING session;

-- name: workers
-- Sessions with a lease, newest first.
SELECT w.session, w.name, w.slots, w.labels, w.tasks, w.version, w.started_at, w.seen_at, w.lease_until,
  w.cpu, w.memory, w.dedicated, CASE WHEN w.reserved_until > {now} AND EXISTS (
    SELECT 1 FROM runs r WHERE r.state = 'ready' AND r.profile = w.reserved_for AND r.eligible_at <= {now}
  ) THEN w.reserved_for END
FROM workers w WHERE w.lapsed = 0 AND w.lease_until > {now} ORDER BY w.started_at DESC, w.session DESC;

-- name: shares_used
-- How many runs of which kind each session holds.
SELECT r.session, r.profile, COUNT(*) FROM runs r
WHERE r.state = 'running' AND r.session <> 'weaver' GROUP BY r.session, r.profile;
