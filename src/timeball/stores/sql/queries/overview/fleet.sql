-- What the whole fleet does now, for metrics. Every count ends at :limit, and reads only indexes.

-- name: due_by_priority
-- The number of ready runs without a placement profile, and since when the first of them could be claimed.
SELECT b.priority,
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.state = {state.ready} AND r.profile IS NULL AND r.priority = b.priority AND r.eligible_at <= {now} LIMIT :limit
  ) AS due),
  (SELECT r.eligible_at FROM runs r
    WHERE r.state = {state.ready} AND r.profile IS NULL AND r.priority = b.priority AND r.eligible_at <= {now}
    ORDER BY r.eligible_at LIMIT 1)
FROM {batch b: priority bigint};

-- name: due_profiles
-- The first placement profiles of ready runs.
SELECT p.profile FROM profiles p WHERE EXISTS (
  SELECT 1 FROM runs r WHERE r.state = {state.ready} AND r.profile = p.profile AND r.eligible_at <= {now}
) ORDER BY p.profile LIMIT :limit;

-- name: due_by_profile
-- The number of ready runs with a placement profile, and since when the first of them could be claimed.
SELECT b.profile,
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.state = {state.ready} AND r.profile = b.profile AND r.eligible_at <= {now} LIMIT :limit
  ) AS due),
  (SELECT r.eligible_at FROM runs r
    WHERE r.state = {state.ready} AND r.profile = b.profile AND r.eligible_at <= {now} ORDER BY r.eligible_at LIMIT 1)
FROM {batch b: profile text};

-- name: dead_by_tenant
-- The number of dead letters of each tenant.
SELECT h.tenant, COUNT(*) FROM (
  SELECT h.tenant FROM history h
  WHERE h.status = {status.dead} AND h.retried_as IS NULL AND h.discarded_at IS NULL LIMIT :limit
) AS h GROUP BY h.tenant;
