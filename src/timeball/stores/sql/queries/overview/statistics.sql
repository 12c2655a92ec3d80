-- Statistics of how runs ended, by intervals of time.

-- name: count_successes
-- The tenant, origin, attempt and instants of finished runs that were plain successes.
SELECT h.tenant, h.origin, h.attempt, COALESCE(h.due_at, h.fire_time), h.created_at, h.eligible_at, h.claimed_at, h.started_at,
  h.finished_at
FROM {batch b: id text} {each_within history h: b.id};

-- name: begin_batch
-- Record the number of a batch, unless it or a later one was recorded before.
INSERT INTO stats_writers (writer, seq, at) VALUES (:writer, :seq, {now})
ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE stats_writers.seq < excluded.seq
RETURNING seq;

-- name: lock_stats
-- Lock and return the rows of intervals, and create those that are missing, unless their tenant was deleted. They are in
-- the order of their keys, which avoids deadlocks.
INSERT INTO run_stats (tenant, width, at, tally)
SELECT b.tenant, b.width, b.at, {empty} FROM {batch b: tenant text, width bigint, at bigint}
WHERE NOT EXISTS (
  SELECT 1 FROM audit_log l WHERE l.chain = '*' AND l.resource_id = b.tenant AND l.action = 'tenant.deleted'
)
ON CONFLICT (tenant, width, at) DO UPDATE SET tally = run_stats.tally
RETURNING tenant, width, at, tally;

-- name: write_stats
-- Write the rows of intervals, which are locked.
UPDATE run_stats SET tally = b.tally FROM {batch b: tenant text, width bigint, at bigint, tally text}
WHERE run_stats.tenant = b.tenant AND run_stats.width = b.width AND run_stats.at = b.at;

-- name: stats_of_tenant
-- The rows of the intervals of a tenant in a range of time.
SELECT s.at, s.tally FROM run_stats s
WHERE s.tenant = :tenant AND s.width = :width AND s.at >= :since AND s.at < :until ORDER BY s.at;

-- name: forget_stats
-- Delete the rows of some intervals before an instant.
DELETE FROM run_stats WHERE (tenant, width, at) IN (
  SELECT s.tenant, s.width, s.at FROM run_stats s WHERE s.width = :width AND s.at < :before
  ORDER BY s.at LIMIT :limit
) RETURNING at;

-- name: forget_writers
-- Delete the batch numbers of servers that have not written since an instant.
DELETE FROM stats_writers WHERE at < :before;
