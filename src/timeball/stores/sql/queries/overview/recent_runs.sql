-- The newest runs of several jobs.

-- name: recent_finished
-- The newest finished runs of each job.
SELECT {shown history r}, j.name FROM {batch b: id text} {firsts history r} (
  SELECT {of_firsts} FROM history r WHERE r.job_id = b.id AND r.origin <> {origin.task}
    AND {days r.id >= :made_from AND r.id < :made_until}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} LEFT JOIN jobs j ON j.id = r.job_id;

-- name: recent_live
-- The newest live runs of each job whose fire time has passed.
SELECT {columns runs r}, j.name FROM {batch b: id text} {firsts runs r} (
  SELECT {of_firsts} FROM runs r WHERE r.job_id = b.id AND r.origin <> {origin.task} AND r.fire_time <= {now}
  ORDER BY r.fire_time DESC, r.id DESC LIMIT :limit
) {firsts_end} LEFT JOIN jobs j ON j.id = r.job_id;
