-- Dead letters, grouped by their errors.

-- name: dead_letter_groups
-- The newest dead letters grouped by error fingerprint, largest groups first, each with its newest dead letter. They
-- are counted by job first: PostgreSQL would sort the dead letters once more to count distinct jobs.
SELECT g.fingerprint, g.letters, g.jobs, g.first_at, g.last_at, g.newest, h.failure, g.counted FROM (
  SELECT o.fingerprint, SUM(o.letters) AS letters, COUNT(*) AS jobs, MIN(o.first_at) AS first_at,
    MAX(o.last_at) AS last_at, MAX(o.newest) AS newest, SUM(SUM(o.letters)) OVER () AS counted
  FROM (
    SELECT l.fingerprint, l.job_id, COUNT(*) AS letters, MIN(l.finished_at) AS first_at, MAX(l.finished_at) AS last_at,
      MAX(l.id) AS newest
    FROM (
      SELECT r.id, r.job_id, r.fingerprint, r.finished_at FROM history r {jobs}
      WHERE {where} ORDER BY r.fire_time DESC, r.id DESC LIMIT :counted
    ) AS l GROUP BY l.fingerprint, l.job_id
  ) AS o GROUP BY o.fingerprint
) AS g {each history h: g.newest} ORDER BY g.letters DESC, g.newest DESC LIMIT :limit;
