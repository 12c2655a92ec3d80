-- Workflow runs: how they begin, advance and end. Every change is made under the lock on the job.

-- name: flows_to_begin
-- Workflow runs that are due and have not begun, longest waiting first.
SELECT r.id, r.job_id FROM runs r
WHERE r.state = {state.ready} AND r.profile = {profile.workflow} AND r.eligible_at <= {now}
ORDER BY r.eligible_at, r.id LIMIT :limit;

-- name: flows_to_stop
-- Workflow runs whose cancellation was requested and that may still create runs of tasks.
SELECT r.id, r.job_id FROM runs r JOIN workflow_runs w ON w.id = r.id
WHERE r.state = {state.running} AND r.session = {session.weaver} AND r.cancel_requested_at IS NOT NULL AND w.state = {flow.live}
ORDER BY r.id LIMIT :limit;

-- name: flows_to_advance
-- Workflow runs with a task that is ready to start, or has ended and whose dependents have not been updated.
SELECT t.flow_id, w.job_id FROM workflow_tasks t JOIN workflow_runs w ON w.id = t.flow_id
WHERE t.fresh = 1 AND t.flow_id > :after AND w.state <> {flow.ended}
  AND EXISTS (SELECT 1 FROM runs r WHERE r.id = t.flow_id AND r.state = {state.running})
ORDER BY t.flow_id, t.place, t.idx LIMIT :limit;

-- name: next_flow_at
-- The earliest instant at which a workflow run may begin.
SELECT r.eligible_at FROM runs r WHERE r.state = {state.ready} AND r.profile = {profile.workflow}
ORDER BY r.eligible_at LIMIT 1;

-- name: specs_of_flows
-- The specs of workflow runs, and the state of those that have begun. Their rows are locked.
SELECT r.id, COALESCE(r.spec, j.spec), (SELECT w.state FROM workflow_runs w WHERE w.id = r.id)
FROM {batch b: id text} JOIN runs r ON r.id = b.id JOIN jobs j ON j.id = r.job_id;

-- name: live_flows
-- Workflow runs that have begun and not ended, and whether their cancellation was requested. Their jobs are locked.
SELECT {columns workflow_runs w}, r.cancel_requested_at, r.kill
FROM {batch b: id text} JOIN workflow_runs w ON w.id = b.id JOIN runs r ON r.id = w.id
WHERE w.state <> {flow.ended} AND r.state = {state.running} ORDER BY w.id;

-- name: fresh_tasks
-- The tasks of workflow runs that are ready to start, or have ended and whose dependents have not been updated.
SELECT {columns workflow_tasks t} FROM {batch b: id text} JOIN workflow_tasks t ON t.flow_id = b.id
WHERE t.fresh = 1 ORDER BY t.flow_id, t.place, t.idx LIMIT :limit;

-- name: tasks_at
-- Tasks of workflow runs by position.
SELECT {columns workflow_tasks t} FROM {batch b: flow_id text, place bigint}
JOIN workflow_tasks t ON t.flow_id = b.flow_id AND t.place = b.place AND t.idx = -1;

-- name: nodes_at
-- The constant part of tasks: definition, dependents and sources.
SELECT {columns workflow_nodes n} FROM {batch b: flow_id text, place bigint}
JOIN workflow_nodes n ON n.flow_id = b.flow_id AND n.place = b.place;

-- name: children_at
-- The positions of the tasks that depend on given tasks.
SELECT n.flow_id, n.place, n.children FROM {batch b: flow_id text, place bigint}
JOIN workflow_nodes n ON n.flow_id = b.flow_id AND n.place = b.place;

-- name: results_of_tasks
-- The results of finished runs.
SELECT h.id, h.result FROM {batch b: id text} {each_within history h: b.id};

-- name: results_at
-- Given tasks of workflow runs and their instances, whose results other tasks may use.
SELECT t.flow_id, t.place, t.idx, t.name, t.state, t.instances, t.run_id
FROM {batch b: flow_id text, place bigint} JOIN workflow_tasks t ON t.flow_id = b.flow_id AND t.place = b.place
ORDER BY t.flow_id, t.place, t.idx;

-- name: failed_instances
-- The number of instances of given tasks that did not succeed, and the index of the first one.
SELECT b.flow_id, b.place, COUNT(*), MIN(t.idx) FROM {batch b: flow_id text, place bigint}
JOIN workflow_tasks t ON t.flow_id = b.flow_id AND t.place = b.place AND t.idx >= 0
WHERE t.state <> {task.succeeded} GROUP BY b.flow_id, b.place;

-- name: reasons_of_instances
-- The reasons why given instances did not succeed.
SELECT t.flow_id, t.place, t.reason FROM {batch b: flow_id text, place bigint, idx bigint}
JOIN workflow_tasks t ON t.flow_id = b.flow_id AND t.place = b.place AND t.idx = b.idx;

-- name: write_tasks
-- Write the state of tasks.
UPDATE workflow_tasks SET state = b.state, fresh = b.fresh, waits = b.waits, unmet = b.unmet, ill = b.ill,
  because = b.because, open = b.open, instances = b.instances, run_id = b.run_id, reason = b.reason
FROM {batch b: flow_id text, place bigint, idx bigint, state text, fresh bigint, waits bigint, unmet bigint,
  ill bigint, because text, open bigint, instances bigint, run_id text, reason text}
WHERE workflow_tasks.flow_id = b.flow_id AND workflow_tasks.place = b.place AND workflow_tasks.idx = b.idx;

-- name: write_flows
-- Write the state of workflow runs.
UPDATE workflow_runs SET state = b.state, open = b.open, failed = b.failed, skipped = b.skipped, because = b.because
FROM {batch b: id text, state text, open bigint, failed bigint, skipped bigint, because text}
WHERE workflow_runs.id = b.id;

-- name: end_tasks
-- Record that the runs of these tasks ended. Their jobs are locked.
UPDATE workflow_tasks SET state = b.state, reason = b.reason, fresh = 1
FROM {batch b: run_id text, state text, reason text}
WHERE workflow_tasks.run_id = b.run_id AND workflow_tasks.state = {task.running};

-- name: drop_waiting_tasks
-- Cancel all tasks and instances without a run, in given workflow runs.
UPDATE workflow_tasks SET state = {task.cancelled}, reason = :reason
WHERE (state = {task.waiting} OR (state = {task.running} AND run_id IS NULL)) AND flow_id {in b: text};

-- name: look_at_nothing
-- Mark all tasks of workflow runs as handled, so that they are not advanced again.
UPDATE workflow_tasks SET fresh = 0 WHERE fresh = 1 AND flow_id {in b: text};

-- name: live_task_runs
-- The live runs of the tasks of workflow runs.
SELECT t.flow_id, t.run_id FROM {batch b: id text} JOIN workflow_tasks t ON t.flow_id = b.id
JOIN runs r ON r.id = t.run_id WHERE t.state = {task.running} ORDER BY t.run_id;

-- name: flow_by_id
-- A workflow run that has begun.
SELECT {columns workflow_runs w} FROM workflow_runs w WHERE w.id = :id;

-- name: tasks_of_flow
-- The tasks of a workflow run.
SELECT {columns workflow_tasks t} FROM workflow_tasks t
WHERE t.flow_id = :id AND t.idx < 0 ORDER BY t.place;

-- name: definitions_of_flow
-- The definitions of the tasks of a workflow run.
SELECT n.place, n.definition FROM workflow_nodes n WHERE n.flow_id = :id ORDER BY n.place;

-- name: instances_of_flow
-- The instances of the tasks of a workflow run, at most :limit.
SELECT {columns workflow_tasks t} FROM workflow_tasks t
WHERE t.flow_id = :id AND t.idx >= 0 ORDER BY t.place, t.idx LIMIT :limit;

-- name: running_tasks
-- The first :limit running tasks of a workflow run.
SELECT t.name, t.run_id FROM workflow_tasks t WHERE t.flow_id = :id AND t.state = {task.running} AND t.idx < 0
ORDER BY t.place LIMIT :limit;

-- name: flows_of_tasks
-- The workflow runs that given runs are tasks of.
SELECT t.run_id, t.flow_id FROM {batch b: id text} JOIN workflow_tasks t ON t.run_id = b.id;

-- name: drop_tasks_of_flows
-- Delete the tasks of workflow runs that were removed.
DELETE FROM workflow_tasks WHERE flow_id {in b: text};

-- name: drop_nodes_of_flows
-- Delete the constant part of the tasks of workflow runs that were removed.
DELETE FROM workflow_nodes WHERE flow_id {in b: text};

-- name: drop_flows
-- Delete workflow runs.
DELETE FROM workflow_runs WHERE id {in b: text};
