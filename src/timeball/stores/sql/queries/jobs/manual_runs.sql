-- Operations of users on finished runs: retry, replay and discard.

-- name: runs_to_follow
-- Finished runs that may be retried or replayed, with their jobs and what was done with them before. The jobs are
-- locked.
SELECT h.id, h.job_id, h.status, h.retried_as, h.discarded_at, h.replayed_as
FROM {batch b: id text} {each_within history h: b.id} WHERE h.origin <> {origin.task};

-- name: mark_retried
-- Link finished runs to their retries, once. The jobs are locked.
UPDATE history SET retried_as = b.successor FROM {batch b: id text, successor text}
WHERE history.id = b.id AND {within history.id: b} AND history.retried_as IS NULL;

-- name: mark_replayed
-- Link finished runs to their replays. The jobs are locked.
UPDATE history SET replayed_as = b.successor FROM {batch b: id text, successor text}
WHERE history.id = b.id AND {within history.id: b};

-- name: jobs_of_finished
-- The jobs to lock before these finished runs change.
SELECT DISTINCT h.job_id FROM {batch b: id text} {each_within history h: b.id};

-- name: discard
-- Discard failed and dead runs that were neither retried nor discarded. The jobs are locked.
UPDATE history SET discarded_at = {now}
WHERE status IN ({gave_up}) AND retried_as IS NULL AND discarded_at IS NULL
  AND {within id: b} AND id IN (SELECT id FROM {batch b: id text})
RETURNING id;

-- name: own_specs
-- Give runs a spec of their own.
UPDATE runs SET spec = b.spec, task_id = b.task_id
FROM {batch b: id text, spec text, task_id text} WHERE runs.id = b.id;
