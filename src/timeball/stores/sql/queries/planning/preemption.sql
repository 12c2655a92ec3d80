-- Preemption: a running attempt is suspended or ended, and gives its slots to a waiting run of a higher priority.

-- name: preemptible_runs
-- Running attempts that allow preemption, whether their cancellation was requested, and whether a preemption of each is
-- open.
SELECT r.id, r.session, r.attempt, r.token, r.priority, r.profile, r.attempt_started_at, r.preemptible,
  CASE WHEN r.cancel_requested_at IS NULL THEN 0 ELSE 1 END,
  EXISTS (SELECT 1 FROM preemptions p WHERE p.run_id = r.id AND p.token = r.token AND p.ended_at IS NULL)
FROM runs r WHERE r.preemptible IS NOT NULL AND r.state = {state.running} ORDER BY r.id LIMIT :limit;

-- name: any_preemption_open
-- Whether a preemption is open.
SELECT 1 FROM preemptions WHERE ended_at IS NULL LIMIT 1;

-- name: first_waiting
-- The first claimable run of each priority, and of each placement profile.
SELECT * FROM (
  {for_each_level}
  SELECT id, priority, profile, eligible_at, fire_time, gated FROM runs
  WHERE state = {state.ready} AND profile IS NULL AND priority = {level} AND eligible_at <= {now}
    AND (start_by IS NULL OR start_by >= {now} OR attempt > 0)
  ORDER BY eligible_at, fire_time, id LIMIT 1
  {end_of_level}
) AS firsts
UNION ALL SELECT r.id, r.priority, r.profile, r.eligible_at, r.fire_time, r.gated FROM profiles k
JOIN runs r ON r.id = (
  SELECT x.id FROM runs x WHERE x.state = {state.ready} AND x.profile = k.profile AND x.eligible_at <= {now}
    AND (x.start_by IS NULL OR x.start_by >= {now} OR x.attempt > 0)
  ORDER BY x.eligible_at, x.fire_time, x.id LIMIT 1
);

-- name: tasks_of_runs
-- The specs of runs, and of their registered tasks if they have one.
SELECT r.id, r.job_id, COALESCE(r.spec, j.spec),
  (SELECT t.spec FROM tasks t
    WHERE t.tenant = r.tenant AND t.id = CASE WHEN r.spec IS NULL THEN j.task_id ELSE r.task_id END)
FROM {batch b: id text} JOIN runs r ON r.id = b.id JOIN jobs j ON j.id = r.job_id;

-- name: lock_preempted
-- Lock an attempt that is to be suspended, if it may still be.
SELECT r.preemptible, r.needs FROM runs r
WHERE r.id = :id AND r.attempt = :attempt AND r.token = :token AND r.state = {state.running} AND r.preemptible > 0
  AND r.cancel_requested_at IS NULL {lock r};

-- name: add_preemption
-- Insert one preemption of an attempt, if the run that needs its slots still waits. The attempt's row is locked.
INSERT INTO preemptions (run_id, number, by_run, attempt, token, asked_at)
SELECT :id, CAST(:number AS bigint), :by_run, CAST(:attempt AS bigint), CAST(:token AS bigint), {now}
FROM runs w WHERE w.id = :by_run AND w.state = {state.ready}
ON CONFLICT DO NOTHING RETURNING number;

-- name: count_preemption
-- Count a preemption of an attempt, and reduce what it holds of its worker. Its row is locked.
UPDATE runs SET preemptible = preemptible - 1, needs = :needs WHERE id = :id;

-- name: pause_orders
-- Attempts that must be asked to suspend and have not reported that they did, with their sessions.
SELECT r.session, r.token, p.number FROM preemptions p
JOIN runs r ON r.id = p.run_id AND r.token = p.token AND r.state = {state.running}
WHERE p.ended_at IS NULL AND p.paused_at IS NULL ORDER BY r.token;

-- name: close_preemptions
-- End preemptions whose attempt is not running any more, with any outcome.
UPDATE preemptions SET ended_at = {now} WHERE ended_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM runs r WHERE r.id = preemptions.run_id AND r.token = preemptions.token AND r.state = {state.running}
);

-- name: note_paused
-- Record when attempts were suspended. Their rows are locked.
UPDATE preemptions SET paused_at = b.at FROM {batch b: id text, token bigint, number bigint, at bigint}
WHERE preemptions.run_id = b.id AND preemptions.token = b.token AND preemptions.number = b.number
  AND preemptions.paused_at IS NULL AND preemptions.ended_at IS NULL;

-- name: note_resumed
-- Record when attempts were resumed, or when the worker refused to suspend them. Their rows are locked.
UPDATE preemptions SET ended_at = b.at FROM {batch b: id text, token bigint, number bigint, at bigint}
WHERE preemptions.run_id = b.id AND preemptions.token = b.token AND preemptions.number = b.number
  AND preemptions.ended_at IS NULL;

-- name: take_back
-- Set what resumed attempts hold of their workers, and limit how often they may still be preempted. Their rows are
-- locked.
UPDATE runs SET needs = b.needs, preemptible = {least}(runs.preemptible, b.most)
FROM {batch b: id text, needs text, most bigint} WHERE runs.id = b.id;

-- name: profiles_of_runs
-- The placement profiles of running attempts.
SELECT r.id, r.profile FROM {batch b: id text} JOIN runs r ON r.id = b.id;

-- name: preemptions_of
-- Every preemption in which a run gave up its slots.
SELECT {columns preemptions p} FROM preemptions p WHERE p.run_id = :id ORDER BY p.number;

-- name: preemptions_for
-- The open preemptions in favour of a run.
SELECT {columns preemptions p} FROM preemptions p WHERE p.by_run = :id AND p.ended_at IS NULL;

-- name: forget_preemptions
-- Delete preemptions that ended long ago.
DELETE FROM preemptions WHERE ended_at IS NOT NULL AND ended_at < {now} - :long;
