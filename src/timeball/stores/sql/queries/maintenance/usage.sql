-- Usage of tenants.

-- name: usage_mark
-- The id up to which runs are in the sums, unless they are pending.
SELECT upto FROM usage_marks WHERE name = 'runs';

-- name: end_of_usage_step
-- The last run of a step that adds :size runs, live or finished, to the sums: the :size-th run after :after,
-- or no row if fewer runs are left.
SELECT e.id FROM (
  SELECT f.id FROM (SELECT h.id FROM history h WHERE h.id > :after AND h.id < :until ORDER BY h.id LIMIT :size) AS f
  UNION ALL
  SELECT l.id FROM (SELECT r.id FROM runs r WHERE r.id > :after AND r.id < :until ORDER BY r.id LIMIT :size) AS l
) AS e ORDER BY e.id LIMIT 1 OFFSET :size - 1;

-- name: make_usage_pending
-- List the live runs of a step as pending. This comes before the finished runs of the step are read: a run that ends in
-- between is pending and nothing else.
INSERT INTO usage_pending (run_id) SELECT r.id FROM runs r WHERE r.id > :after AND r.id <= :upto
ON CONFLICT (run_id) DO NOTHING;

-- name: move_usage_mark
-- Record that the runs up to an id are in the sums or pending.
INSERT INTO usage_marks (name, upto) VALUES ('runs', :upto)
ON CONFLICT (name) DO UPDATE SET upto = excluded.upto;

-- name: usage_now_ended
-- Of a page of pending runs: their ids, and whether they ended before an instant.
SELECT p.run_id, CASE WHEN EXISTS (
  SELECT 1 FROM history h WHERE h.id = p.run_id AND h.finished_at < :before
) THEN 1 ELSE 0 END
FROM usage_pending p WHERE p.run_id > :after ORDER BY p.run_id LIMIT :size;

-- name: forget_pending_usage
-- Delete pending runs that are in the sums now.
DELETE FROM usage_pending WHERE run_id {in b: text};

-- name: usage_parts_of_range
-- What the finished runs of a range of ids used, in parts: their last attempt and their result, their earlier attempts,
-- their output, and output and results in the object storage. `at` is the end of the attempt, or of the run. An attempt
-- without a start has not executed anything. Workflow runs are left out: they only wait for their tasks.
SELECT h.id AS run_id, h.job_id, h.tenant, h.version, h.origin, h.finished_at AS at,
  CASE WHEN h.started_at IS NULL THEN 0 ELSE 1 END AS runs,
  CASE WHEN h.attempt_started_at IS NULL THEN 0 ELSE 1 END AS attempts,
  COALESCE(h.finished_at - h.attempt_started_at, 0) AS micros,
  CASE WHEN h.result IS NULL OR h.result LIKE '@results/%' THEN 0 ELSE {octets h.result} END AS bytes
FROM history h WHERE {of_history} AND h.fires = 1
  AND NOT (h.worker {same} {session.weaver} AND EXISTS (SELECT 1 FROM workflow_runs w WHERE w.id = h.id))
UNION ALL
SELECT h.id, h.job_id, h.tenant, h.version, h.origin, a.finished_at, 0, 1, a.finished_at - a.started_at, 0
FROM attempts a CROSS JOIN history h WHERE {of_attempts} AND a.started_at IS NOT NULL AND h.id = a.run_id
UNION ALL
SELECT h.id, h.job_id, h.tenant, h.version, h.origin, h.finished_at, 0, 0, 0, {octets l.text}
FROM logs l CROSS JOIN history h WHERE {of_logs} AND l.stream <> '@' AND h.id = l.run_id
UNION ALL
SELECT h.id, h.job_id, h.tenant, h.version, h.origin, h.finished_at, 0, 0, 0, o.bytes
FROM offloaded_sizes o CROSS JOIN history h WHERE {of_objects} AND h.id = o.run_id

-- name: usage_parts_of_each
-- The same parts as `usage_parts_of_range`, for finished runs that are found one by one. A run without rows in one of
-- the tables costs one lookup in it.
SELECT h.id AS run_id, h.job_id, h.tenant, h.version, h.origin, h.finished_at AS at,
  CASE WHEN h.started_at IS NULL THEN 0 ELSE 1 END AS runs,
  CASE WHEN h.attempt_started_at IS NULL THEN 0 ELSE 1 END AS attempts,
  COALESCE(h.finished_at - h.attempt_started_at, 0) AS micros,
  CASE WHEN h.result IS NULL OR h.result LIKE '@results/%' THEN 0 ELSE {octets h.result} END
    + COALESCE((SELECT SUM({octets l.text}) FROM logs l WHERE l.run_id = h.id AND l.stream <> '@'), 0)
    + COALESCE((SELECT SUM(o.bytes) FROM offloaded_sizes o WHERE o.run_id = h.id), 0) AS bytes
FROM {found}
WHERE NOT (h.worker {same} {session.weaver} AND EXISTS (SELECT 1 FROM workflow_runs w WHERE w.id = h.id))
UNION ALL
SELECT h.id, h.job_id, h.tenant, h.version, h.origin, a.finished_at, 0, 1, a.finished_at - a.started_at, 0
FROM {found} {each_attempt a: h.id} WHERE a.started_at IS NOT NULL

-- name: usage_parts_of_live
-- What the earlier attempts of live runs used.
SELECT r.id, r.job_id, r.tenant, r.version, r.origin, a.finished_at, 0, 1, a.finished_at - a.started_at, 0
FROM runs r {each_attempt a: r.id} WHERE r.attempt > 0 AND a.started_at IS NOT NULL

-- name: usage_rows
-- Parts of usage with their day and user, and with the spec that says which resources the attempt asked for; no spec if
-- it asks for none.
SELECT s.tenant, s.day, s.user_id, s.job_id,
  CASE WHEN s.spec LIKE '%"resources"%' THEN s.spec ELSE '' END AS spec, s.runs, s.attempts, s.micros, s.bytes
FROM (
  SELECT p.tenant, p.at - p.at % 86400000000 AS day, {bytewise COALESCE(j.user_id, '')} AS user_id, p.job_id,
    CASE WHEN p.micros = 0 THEN NULL WHEN p.origin = {origin.task} THEN (
      SELECT n.definition FROM workflow_tasks t JOIN workflow_nodes n ON n.flow_id = t.flow_id AND n.place = t.place
      WHERE t.run_id = p.run_id LIMIT 1
    ) ELSE COALESCE(
      (SELECT e.spec FROM edited_runs e WHERE e.run_id = p.run_id),
      (SELECT v.spec FROM job_versions v WHERE v.job_id = p.job_id AND v.version >= p.version
        ORDER BY v.version LIMIT 1),
      j.spec
    ) END AS spec, p.runs, p.attempts, p.micros, p.bytes
  FROM ({parts}) AS p LEFT JOIN jobs j ON j.id = p.job_id
  WHERE {which}
) AS s

-- name: usage_to_count
-- What finished runs used (those of a step, or pending ones), added up by tenant, day, user, job and spec.
SELECT u.tenant, u.day, u.user_id, u.job_id, u.spec, CAST(SUM(u.runs) AS bigint), CAST(SUM(u.attempts) AS bigint),
  CAST(SUM(u.micros) AS bigint), CAST(SUM(u.bytes) AS bigint)
FROM ({rows}) AS u GROUP BY u.tenant, u.day, u.user_id, u.job_id, u.spec;

-- name: add_usage
-- Add what runs used to the sums of usage, or take it off with negative numbers.
INSERT INTO usage_sums (tenant, day, user_id, job_id, cpu, memory, runs, attempts, micros, bytes)
SELECT b.tenant, b.day, b.user_id, b.job_id, b.cpu, b.memory, b.runs, b.attempts, b.micros, b.bytes
FROM {batch b: tenant text, day bigint, user_id text, job_id text, cpu bigint, memory bigint, runs bigint, attempts bigint, micros bigint, bytes bigint}
WHERE true
ON CONFLICT (tenant, day, user_id, job_id, cpu, memory) DO UPDATE SET
  runs = usage_sums.runs + excluded.runs, attempts = usage_sums.attempts + excluded.attempts,
  micros = usage_sums.micros + excluded.micros, bytes = usage_sums.bytes + excluded.bytes;

-- name: usage
-- Usage in groups, from the sums and from the runs that are not in them: one statement, so that each run counts once.
SELECT {keys}, g.tenant, g.day, g.cpu, g.memory, g.spec, CAST(SUM(g.runs) AS bigint), CAST(SUM(g.attempts) AS bigint),
  CAST(SUM(g.micros) AS bigint), CAST(SUM(g.bytes) AS bigint)
FROM (
  SELECT s.tenant, s.day, s.user_id, s.job_id, s.cpu, s.memory, '' AS spec, s.runs, s.attempts, s.micros, s.bytes
  FROM usage_sums s WHERE s.tenant {in tenants: text} AND s.day >= :since AND s.day < :until
  UNION ALL
  SELECT u.tenant, u.day, u.user_id, u.job_id, 0, 0, u.spec, u.runs, u.attempts, u.micros, u.bytes
  FROM ({rows}) AS u WHERE u.tenant {in tenants: text} AND u.day >= :since AND u.day < :until
) AS g WHERE {where} GROUP BY {group} ORDER BY {group} LIMIT :size;

-- name: merge_usage_of_jobs
-- Add the sums of jobs that are deleted to those of their user.
INSERT INTO usage_sums (tenant, day, user_id, job_id, cpu, memory, runs, attempts, micros, bytes)
SELECT s.tenant, s.day, s.user_id, '', s.cpu, s.memory, CAST(SUM(s.runs) AS bigint), CAST(SUM(s.attempts) AS bigint),
  CAST(SUM(s.micros) AS bigint), CAST(SUM(s.bytes) AS bigint)
FROM {batch b: id text} JOIN usage_sums s ON s.job_id = b.id AND s.job_id <> '' WHERE true
GROUP BY s.tenant, s.day, s.user_id, s.cpu, s.memory
ON CONFLICT (tenant, day, user_id, job_id, cpu, memory) DO UPDATE SET
  runs = usage_sums.runs + excluded.runs, attempts = usage_sums.attempts + excluded.attempts,
  micros = usage_sums.micros + excluded.micros, bytes = usage_sums.bytes + excluded.bytes;

-- name: drop_usage_of_jobs
-- Delete the sums of jobs that were deleted.
DELETE FROM usage_sums WHERE job_id {in b: text} AND job_id <> '';

-- name: drop_offloaded_sizes
-- Delete the sizes of objects of runs that were deleted.
DELETE FROM offloaded_sizes WHERE run_id {in b: text};

-- name: forget_later_pending_usage
-- Delete pending runs after an id.
DELETE FROM usage_pending WHERE run_id > :after;

-- name: drop_empty_usage
-- Delete sums in which nothing is left after runs were taken off.
DELETE FROM usage_sums WHERE runs = 0 AND attempts = 0 AND micros = 0 AND bytes = 0;
