-- Search of live and finished runs by a filter.

-- name: list_live
-- A page of live runs. It is one statement, so that a run which is claimed or released at the same time is not missed.
SELECT {columns runs r}, j.name FROM ({found}) AS found JOIN runs r ON r.id = found.id
LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order} LIMIT :limit;

-- name: find_live
-- The first live runs that match a filter.
SELECT * FROM (SELECT r.id FROM runs r {jobs} WHERE {where} ORDER BY {order} LIMIT :limit) AS met

-- name: find_live_of_jobs
-- The first live runs of given jobs that match a filter.
SELECT * FROM (
  SELECT r.id FROM ({chosen}) AS chosen CROSS JOIN runs r WHERE r.job_id = chosen.id AND {where}
  ORDER BY {order} LIMIT :limit
) AS met

-- name: list_finished
-- A page of finished runs. The job names are joined last: a query plan that starts with the names would sort all
-- matches.
SELECT {shown history r}, j.name FROM (
  SELECT r.* FROM history r {jobs} WHERE {where} AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY {order} LIMIT :limit
) AS r LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order};

-- name: list_finished_nearby
-- Finished runs that match a filter, among the first :nearby of all jobs. May return less than a page.
SELECT {shown history r}, j.name FROM (
  SELECT r.* FROM history r WHERE {nearby} ORDER BY {order} LIMIT :nearby
) AS r LEFT JOIN jobs j ON j.id = r.job_id WHERE {where} ORDER BY {order} LIMIT :limit;

-- name: list_finished_of_jobs
-- A page of the finished runs of given jobs.
SELECT {shown history r}, j.name FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT :limit
) {firsts_end} LEFT JOIN jobs j ON j.id = r.job_id ORDER BY {order} LIMIT :limit;

-- name: first_of_jobs
-- The first finished run of each given job that matches a filter, and of those the first :limit.
SELECT r.job_id, r.fire_time, r.id FROM ({chosen}) AS chosen {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = chosen.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT 1
) {firsts_end} ORDER BY {order} LIMIT :limit;

-- name: match_live
-- A page of live runs that match a filter, oldest first. It is one statement, so that a run which is claimed or
-- released at the same time is not missed.
SELECT r.id, r.job_id, r.fire_time, r.state, r.attempt, COALESCE(r.due_at, r.fire_time), r.eligible_at
FROM ({found}) AS found JOIN runs r ON r.id = found.id ORDER BY {order} LIMIT :limit;

-- name: match_finished
-- A page of finished runs that match a filter, oldest first.
SELECT r.id, r.job_id, r.fire_time, r.status FROM history r {jobs} WHERE {where} ORDER BY {order} LIMIT :limit;

-- name: match_finished_nearby
-- Finished runs that match a filter, among the first :nearby of all jobs, oldest first. May return less than a page.
SELECT r.id, r.job_id, r.fire_time, r.status FROM (
  SELECT r.* FROM history r WHERE {nearby} ORDER BY {order} LIMIT :nearby
) AS r {jobs} WHERE {where} ORDER BY {order} LIMIT :limit;

-- name: match_finished_of_jobs
-- A page of finished runs of given jobs that match a filter, oldest first.
SELECT r.id, r.job_id, r.fire_time, r.status FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r
  WHERE r.job_id = b.id AND {where} AND {days r.id >= :made_from AND r.id < :made_until} ORDER BY {order} LIMIT :limit
) {firsts_end} ORDER BY {order} LIMIT :limit;

-- name: count_chosen_jobs
-- The number of jobs that match a filter, at most :limit.
SELECT COUNT(*) FROM (SELECT 1 FROM ({chosen}) AS chosen LIMIT :limit) AS counted;
