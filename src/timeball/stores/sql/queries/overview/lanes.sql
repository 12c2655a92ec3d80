-- The lanes of the timeline: jobs, their runs in a range of time, and counts of them.

-- name: sampled_finished
-- The newest finished runs of a tenant in each of several ranges.
SELECT b.place, {shown_as_lane} FROM {batch b: place bigint, since bigint, until bigint} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.tenant = :tenant AND r.fire_time >= b.since AND r.fire_time < b.until
    AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end};

-- name: live_of_tenant
-- Live runs of a tenant in a state: the jobs of the first :limit of them, and their first and last fire.
SELECT r.job_id, MIN(r.fire_time), MAX(r.fire_time) FROM (
  SELECT r.job_id, r.fire_time FROM runs r WHERE r.tenant = :tenant AND {found_by} LIMIT :limit
) AS r GROUP BY r.job_id;

-- name: firing_next
-- Of the :looked_at jobs of a tenant that fire next, the first :limit that match.
SELECT j.id FROM (
  SELECT j.id, j.name, j.next_fire_at FROM jobs j
  WHERE j.tenant = :tenant AND j.state = {job.active} AND j.next_fire_at IS NOT NULL
  ORDER BY j.next_fire_at, j.id LIMIT :looked_at
) AS j WHERE {where} ORDER BY j.next_fire_at, j.id LIMIT :limit;

-- name: newest_with_tag
-- The newest jobs of a tenant with a tag.
SELECT j.id FROM job_tags t CROSS JOIN jobs j
WHERE t.tag = :tag AND j.id = t.job_id AND j.tenant = :tenant ORDER BY t.job_id DESC LIMIT :limit;

-- name: lane_jobs
-- Those of the given jobs that belong to a tenant and match the text and the tag of a search, if there are any.
SELECT j.id, j.name, j.state, j.next_fire_at, {size j.spec}, EXISTS (SELECT 1 FROM follows f WHERE f.follower = j.id)
FROM {batch b: id text} {each jobs j: b.id} WHERE j.tenant = :tenant AND {where};

-- name: tags_of_jobs
-- The tags of jobs.
SELECT t.job_id, t.tag FROM {batch b: id text} JOIN job_tags t ON t.job_id = b.id WHERE t.tag <> '' ORDER BY t.job_id, t.tag;

-- name: newest_fires
-- The newest fire of each job in the history since an instant; NULL if there is none.
SELECT b.id, (
  SELECT MAX(r.fire_time) FROM history r
  WHERE r.job_id = b.id AND r.fire_time >= :since AND {days r.id >= :made_from AND r.id < :made_until}
) FROM {batch b: id text};

-- name: finished_of_lanes
-- The newest finished runs of each job in a range.
SELECT {shown_as_lane} FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND r.fire_time >= :since AND r.fire_time < :until
    AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end};

-- name: short_spans_of_lanes
-- Spans of fires of each job that began within a day before an instant and reach beyond it.
SELECT {shown_as_lane} FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND r.fires > 1 AND r.fire_until >= :since AND {length} AND r.fire_time < :since
    AND r.fire_time >= :begins AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end};

-- name: last_spans
-- The ids of the ledger rows that jobs may still extend.
SELECT j.last_span FROM {batch b: id text} {each jobs j: b.id} WHERE j.last_span IS NOT NULL;

-- name: long_spans_of_lanes
-- Spans of fires, by id, that began more than a day before an instant and reach beyond it.
SELECT {shown_as_lane} FROM {batch b: id text} {each_within history r: b.id}
WHERE r.fires > 1 AND r.fire_until >= :since AND r.fire_time < :begins;

-- name: live_of_lanes
-- The newest live runs of each job that fire before an instant.
SELECT r.id, r.job_id, r.fire_time, r.origin, r.state, r.attempt, COALESCE(r.due_at, r.fire_time), r.eligible_at, r.started_at
FROM {batch b: id text} {firsts runs r} (
  SELECT {of_firsts} FROM runs r WHERE r.job_id = b.id AND r.fire_time < :until
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end};

-- name: counted_of_lanes
-- The number of rows of each job in the history (finished runs, and spans of fires) that begin in a range, at most
-- :limit in each range.
SELECT b.id, b.place, (SELECT COUNT(*) FROM (
  SELECT 1 FROM history r WHERE r.job_id = b.id AND r.fire_time >= b.since AND r.fire_time < b.until
    AND {days r.id >= :made_from AND r.id < :made_until} LIMIT :limit
) AS counted) FROM {batch b: id text, place bigint, since bigint, until bigint};

-- name: fires_of_lanes
-- The number of rows of each job in the history (finished runs, and spans of fires) that begin in each part of a range.
SELECT b.id, (r.fire_time - :since) * :parts / :length, COUNT(*) FROM {batch b: id text} {fires_of history r}
  r.job_id = b.id AND r.fire_time >= :since AND r.fire_time < :until AND {days r.id >= :made_from AND r.id < :made_until}
{fires_end} GROUP BY b.id, (r.fire_time - :since) * :parts / :length;

-- name: exceptions_of_lanes
-- The runs of jobs in a range that an index lists as exceptions, the newest :limit of each job, by part of the range,
-- status and verdict: the number of their fires, and of their rows.
SELECT b.id, (r.fire_time - :since) * :parts / :length, r.status, r.verdict, SUM(r.fires), COUNT(*)
FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r WHERE r.job_id = b.id AND r.fire_time >= :since AND r.fire_time < :until AND {listed}
    AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} GROUP BY b.id, (r.fire_time - :since) * :parts / :length, r.status, r.verdict;
