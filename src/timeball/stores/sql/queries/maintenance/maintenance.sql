-- Maintenance: its lease, and the removal of old rows.

-- name: lead
-- Take a lease that is free or has run out, or renew one's own. The epoch grows with every change of the holder.
INSERT INTO leases (name, holder, epoch, until) VALUES (:name, :holder, 1, {now} + :lasts)
ON CONFLICT (name) DO UPDATE SET
  epoch = CASE WHEN leases.holder = excluded.holder THEN leases.epoch ELSE leases.epoch + 1 END,
  holder = excluded.holder, until = excluded.until
WHERE leases.holder = excluded.holder OR leases.until <= {now}
RETURNING epoch;

-- name: still_leads
-- Whether the caller still holds the lease. No other server can take it until the end of this transaction.
UPDATE leases SET until = until WHERE name = :name AND holder = :holder AND epoch = :epoch;

-- name: oldest_to_prune
-- The oldest run from an id on that may be deleted: it ended before :before, holds no ordering key, is not a task of a
-- workflow run that has not ended, and does not wait for its usage to be added to the sums.
SELECT h.id FROM history h
WHERE h.id >= :since AND h.id < :until AND h.finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.holder = h.id)
  AND NOT EXISTS (SELECT 1 FROM usage_pending u WHERE u.run_id = h.id)
  AND NOT EXISTS (SELECT 1 FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
    WHERE t.run_id = h.id AND w.state <> {flow.ended})
ORDER BY h.id LIMIT 1;

-- name: prune_logs
-- Delete some output of runs between two ids that may be deleted (see `oldest_to_prune`).
DELETE FROM logs WHERE run_id >= :since AND run_id < :until AND (run_id, attempt, seq) IN (
  SELECT l.run_id, l.attempt, l.seq FROM logs l
  WHERE l.run_id >= :since AND l.run_id < :until
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = l.run_id)
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.id = l.run_id AND h.finished_at >= :before)
    AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.holder = l.run_id)
    AND NOT EXISTS (SELECT 1 FROM usage_pending u WHERE u.run_id = l.run_id)
    AND NOT EXISTS (SELECT 1 FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
      WHERE t.run_id = l.run_id AND w.state <> {flow.ended})
  ORDER BY l.run_id, l.attempt, l.seq LIMIT :limit
);

-- name: prune_attempts
-- Delete some attempts of runs between two ids that may be deleted (see `oldest_to_prune`).
DELETE FROM attempts WHERE run_id >= :since AND run_id < :until AND (run_id, attempt) IN (
  SELECT a.run_id, a.attempt FROM attempts a
  WHERE a.run_id >= :since AND a.run_id < :until
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = a.run_id)
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.id = a.run_id AND h.finished_at >= :before)
    AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.holder = a.run_id)
    AND NOT EXISTS (SELECT 1 FROM usage_pending u WHERE u.run_id = a.run_id)
    AND NOT EXISTS (SELECT 1 FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
      WHERE t.run_id = a.run_id AND w.state <> {flow.ended})
  ORDER BY a.run_id, a.attempt LIMIT :limit
);

-- name: runs_to_prune
-- Some runs between two ids that may be deleted (see `oldest_to_prune`), and their jobs.
SELECT h.id, h.job_id FROM history h
WHERE h.id >= :since AND h.id < :until AND h.finished_at < :before
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.holder = h.id)
  AND NOT EXISTS (SELECT 1 FROM usage_pending u WHERE u.run_id = h.id)
  AND NOT EXISTS (SELECT 1 FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
    WHERE t.run_id = h.id AND w.state <> {flow.ended})
ORDER BY h.id LIMIT :limit;

-- name: prune_runs
-- Delete finished runs, and return what the daily sums need. The day is the one of the first fire. A ledger row to which
-- fires were added since it was found stays.
DELETE FROM history WHERE id >= :since AND id < :until AND id {in b: text} AND finished_at < :before
RETURNING id, job_id, fire_time - fire_time % 86400000000, verdict, fires, origin;

-- name: drop_edited
-- Delete the edited specs of runs that were deleted.
DELETE FROM edited_runs WHERE run_id {in b: text};

-- name: lock_idle_jobs
-- Lock and return the given jobs that will not fire again and that no job follows.
SELECT j.id, j.spec FROM {batch b: id text} JOIN jobs j ON j.id = b.id
WHERE j.next_fire_at IS NULL AND j.plan_at IS NULL AND j.state <> {job.paused}
  AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.job_id = j.id) {lock j};

-- name: jobs_without_runs
-- The given jobs that have no runs. The jobs are locked.
SELECT b.id FROM {batch b: id text}
WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = b.id)
  AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job_id = b.id);

-- name: drop_jobs
-- Delete jobs.
DELETE FROM jobs WHERE id {in b: text};

-- name: drop_tags_of_jobs
-- Delete the tags of jobs that were deleted.
DELETE FROM job_tags WHERE job_id {in b: text};

-- name: drop_versions_of_jobs
-- Delete the former specs of jobs that were deleted.
DELETE FROM job_versions WHERE job_id {in b: text};

-- name: drop_sums_of_jobs
-- Delete the daily sums of jobs that were deleted.
DELETE FROM daily_sums WHERE job_id {in b: text};

-- name: add_sums
-- Add fires to the daily sums of jobs.
INSERT INTO daily_sums (job_id, day, verdict, fires)
SELECT b.job_id, b.day, b.verdict, b.fires FROM {batch b: job_id text, day bigint, verdict text, fires bigint} WHERE true
ON CONFLICT (job_id, day, verdict) DO UPDATE SET fires = daily_sums.fires + excluded.fires;

-- name: keys_to_forget
-- Some idempotency keys that were first used before an instant and whose jobs were deleted.
SELECT i.tenant, i.key FROM idempotency i
WHERE i.created_at < :before AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = i.job_id)
ORDER BY i.created_at LIMIT :limit;

-- name: drop_keys
-- Delete idempotency keys.
DELETE FROM idempotency WHERE (tenant, key) IN (SELECT tenant, key FROM {batch b: tenant text, key text});

-- name: versions_to_prune
-- Some specs that were replaced before an instant, unless a run of the job exists that was created before it. The
-- newest one of each job stays: it says when, and by which request, the job got its current spec.
SELECT v.job_id, v.version FROM job_versions v WHERE v.replaced_at < :before
  AND EXISTS (SELECT 1 FROM job_versions n WHERE n.job_id = v.job_id AND n.version > v.version)
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = v.job_id AND r.id < :until)
  AND NOT EXISTS (SELECT 1 FROM history h WHERE {unindexed h.job_id} = v.job_id AND h.id < :until)
ORDER BY v.replaced_at LIMIT :limit;

-- name: prune_versions
-- Delete former specs of jobs.
DELETE FROM job_versions
WHERE (job_id, version) IN (SELECT job_id, version FROM {batch b: job_id text, version bigint});

-- name: days_with_room
-- The days that have partitions, in seconds since the epoch.
SELECT extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD'))::bigint
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass('history') AND c.relname ~ '^history_[0-9]+$';

-- name: departures
-- The days that are being removed, and the last run of each that was counted.
SELECT day, upto FROM departures;

-- name: depart
-- Start the removal of a day. None of its runs has been counted.
INSERT INTO departures (day, since, upto) VALUES (:day, :since, '');

-- name: departed_upto
-- Record that the runs of a day up to this one have been counted.
UPDATE departures SET upto = :upto WHERE day = :day;

-- name: have_departed
-- End the removal of a day.
DELETE FROM departures WHERE day = :day;

-- name: staying
-- Runs between two ids that must stay: they are alive, hold an ordering key, are tasks of a workflow run that has not
-- ended, or wait for their usage to be added to the sums.
SELECT r.id FROM runs r WHERE r.id >= :since AND r.id < :until
UNION SELECT t.holder FROM turns t WHERE t.holder IS NOT NULL AND t.holder >= :since AND t.holder < :until
UNION SELECT t.run_id FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
  WHERE t.run_id IS NOT NULL AND t.run_id >= :since AND t.run_id < :until AND w.state <> {flow.ended}
UNION SELECT u.run_id FROM usage_pending u WHERE u.run_id >= :since AND u.run_id < :until;
