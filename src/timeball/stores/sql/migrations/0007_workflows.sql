-- Workflows: the state of the tasks of a workflow run. Other jobs write nothing here.
-- works with: 4
-- Servers of that schema do not know the holder of workflow runs: upgrade all servers before a user creates a workflow.

-- Workflow runs that have begun. The run itself is in `runs` while it is alive, and then in `history`.
CREATE TABLE workflow_runs (
  id {id} PRIMARY KEY,
  job_id {id} NOT NULL,
  tenant {id} NOT NULL,
  version BIGINT NOT NULL,
  state TEXT NOT NULL,
  tasks BIGINT NOT NULL,
  open BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  skipped BIGINT NOT NULL,
  because TEXT NOT NULL,
  spec TEXT NOT NULL
) {clustered};

-- The tasks of a workflow run (idx -1), and the instances of tasks that run once for each of many items. The primary
-- key ensures that each gets one run: the row gets its run when the task begins, and never another.
CREATE TABLE workflow_tasks (
  flow_id {id} NOT NULL,
  place BIGINT NOT NULL,
  idx BIGINT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  fresh BIGINT NOT NULL,
  waits BIGINT NOT NULL,
  unmet BIGINT NOT NULL,
  ill BIGINT NOT NULL,
  because TEXT NOT NULL,
  open BIGINT NOT NULL,
  instances BIGINT,
  run_id {id},
  reason TEXT NOT NULL,
  item TEXT,
  PRIMARY KEY (flow_id, place, idx)
) {clustered};

-- The constant part of a task: its definition, the positions of the tasks that need it, and of the tasks whose results
-- it uses. It is separate from the changing part because both may be long.
CREATE TABLE workflow_nodes (
  flow_id {id} NOT NULL,
  place BIGINT NOT NULL,
  definition TEXT NOT NULL,
  children TEXT NOT NULL,
  sources TEXT NOT NULL,
  PRIMARY KEY (flow_id, place)
) {clustered};

-- Tasks that are ready to start, or have ended and whose dependents have not been updated.
CREATE INDEX workflow_tasks_fresh ON workflow_tasks (flow_id, place, idx) WHERE fresh = 1;
CREATE INDEX workflow_tasks_by_run ON workflow_tasks (run_id) WHERE run_id IS NOT NULL;

-- Workflow runs that are due to begin, and those whose cancellation was requested.
CREATE INDEX runs_to_weave ON runs (eligible_at, id) WHERE state = 'ready' AND profile = '5|1|0|0|(workflow)';
CREATE INDEX runs_to_unravel ON runs (id) WHERE state = 'running' AND session = 'weaver'
  AND cancel_requested_at IS NOT NULL;
