-- Input of the archive: finished runs in the order of their ids, with their attempts, tags and output.

-- name: sizes_to_archive
-- The next runs of a range of ids that ended at or after :since, with the sizes of their results.
SELECT h.id, COALESCE(LENGTH(h.result), 0) FROM history h
WHERE h.id >= :first AND h.id < :until AND h.finished_at >= :since ORDER BY h.id LIMIT :limit;

-- name: runs_to_archive
-- The runs of a range of ids that ended at or after :since, with the user, task and name of their jobs, by which the
-- archive is searched.
SELECT {columns history h}, j.user_id, j.task_id, j.name FROM history h LEFT JOIN jobs j ON j.id = h.job_id
WHERE h.id >= :first AND h.id <= :last AND h.finished_at >= :since ORDER BY h.id;

-- name: attempts_to_archive
-- The attempts of runs except the last one.
SELECT {columns attempts a} FROM {batch b: id text} JOIN attempts a ON a.run_id = b.id ORDER BY a.run_id, a.attempt;

-- name: tags_to_archive
-- The tags of jobs.
SELECT t.job_id, t.tag FROM {batch b: id text} JOIN job_tags t ON t.job_id = b.id
WHERE t.tag <> '' ORDER BY t.job_id, t.tag;

-- name: logs_to_archive
-- The next rows of output of the runs of a range of ids that ended at or after :since.
SELECT h.tenant, l.run_id, l.attempt, l.seq, l.stream, l.at, l.text FROM logs l JOIN history h ON h.id = l.run_id
WHERE (l.run_id, l.attempt, l.seq) > (:run_id, :attempt, :seq) AND l.run_id < :until AND h.finished_at >= :since
ORDER BY l.run_id, l.attempt, l.seq LIMIT :limit;
