-- Jobs, live runs, history, and the tables that belong to them. Times are microseconds since the epoch, flags are 0 or
-- 1, ids sort by age. Every index is used on a frequent path. A partial index costs only the rows that it covers.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
) {clustered};

-- only: sqlite
INSERT INTO meta (name, value) VALUES ('token', 0);

-- only: postgres
CREATE SEQUENCE tokens;

CREATE TABLE jobs (
  id {id} PRIMARY KEY,
  tenant {id} NOT NULL,
  name TEXT NOT NULL,
  spec TEXT NOT NULL,
  task_id TEXT,
  user_id TEXT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  state TEXT NOT NULL DEFAULT 'active',
  anchor BIGINT NOT NULL,
  next_fire_at BIGINT,
  plan_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  pause_reason TEXT NOT NULL DEFAULT '',
  last_span {id}
) {clustered};

CREATE INDEX jobs_to_plan ON jobs (plan_at) WHERE state = 'active' AND plan_at IS NOT NULL;
CREATE INDEX jobs_of_tenant ON jobs (tenant, id);
CREATE INDEX jobs_to_fire ON jobs (tenant, id) WHERE state = 'active' AND next_fire_at IS NOT NULL;
CREATE INDEX jobs_at_rest ON jobs (tenant, state, id) WHERE state <> 'active';
CREATE INDEX jobs_by_name ON jobs (tenant, name, id) WHERE name <> '';
CREATE INDEX jobs_by_user ON jobs (tenant, user_id, id) WHERE user_id <> '';
CREATE INDEX jobs_by_task ON jobs (tenant, task_id, id) WHERE task_id IS NOT NULL;

CREATE TABLE job_tags (
  job_id {id} NOT NULL,
  tag TEXT NOT NULL,
  PRIMARY KEY (job_id, tag)
) {clustered};

CREATE INDEX job_tags_by_tag ON job_tags (tag, job_id);

CREATE TABLE idempotency (
  tenant {id} NOT NULL,
  key {id} NOT NULL,
  fingerprint TEXT NOT NULL,
  job_id {id} NOT NULL,
  answer {bytes} NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, key)
) {clustered};

-- Live runs only. Finished runs move to `history`, so that this table stays small.
CREATE TABLE runs (
  id {id} PRIMARY KEY,
  job_id {id} NOT NULL,
  tenant {id} NOT NULL,
  version BIGINT NOT NULL,
  fire_time BIGINT NOT NULL,
  origin TEXT NOT NULL,
  state TEXT NOT NULL,
  serial BIGINT NOT NULL DEFAULT 0,
  priority BIGINT NOT NULL,
  eligible_at BIGINT NOT NULL,
  attempt BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  retry_of {id},
  token BIGINT,
  session {id},
  worker TEXT,
  claimed_at BIGINT,
  started_at BIGINT,
  attempt_started_at BIGINT,
  cancel_requested_at BIGINT,
  progress DOUBLE PRECISION,
  progress_note TEXT NOT NULL DEFAULT '',
  failure TEXT,
  spec TEXT,
  task_id TEXT,
  poll BIGINT
) {clustered};

CREATE INDEX runs_to_claim ON runs (priority, eligible_at, fire_time, id) WHERE state = 'ready';
CREATE INDEX runs_of_job ON runs (job_id, fire_time);
CREATE INDEX runs_of_session ON runs (session) WHERE state = 'running';
-- For lists. A run that is assigned to a worker on submit is never in this index.
CREATE INDEX runs_waiting ON runs (tenant, state, fire_time, id) WHERE state <> 'running';

-- Rows of this table live for seconds, so autovacuum starts after thousands of them, not after a share of the table.
-- only: postgres
ALTER TABLE runs SET (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);

-- Finished runs, and spans of fires that never became a run. Rows are written once; only a span grows. On PostgreSQL
-- each partition holds the rows of runs created on one day, so that a day is dropped at once. Rows of a day without a
-- partition are in the default partition.
CREATE TABLE history (
  id {id} PRIMARY KEY,
  job_id {id} NOT NULL,
  tenant {id} NOT NULL,
  version BIGINT NOT NULL,
  fire_time BIGINT NOT NULL,
  fire_until BIGINT NOT NULL,
  fires BIGINT NOT NULL,
  origin TEXT NOT NULL,
  status TEXT NOT NULL,
  verdict TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  token BIGINT,
  worker TEXT,
  eligible_at BIGINT,
  created_at BIGINT NOT NULL,
  claimed_at BIGINT,
  started_at BIGINT,
  attempt_started_at BIGINT,
  finished_at BIGINT NOT NULL,
  cancel_requested_at BIGINT,
  progress DOUBLE PRECISION,
  progress_note TEXT NOT NULL,
  failure TEXT,
  result TEXT,
  retry_of {id},
  retried_as {id}
) {daily id};

-- only: postgres
CREATE TABLE history_rest PARTITION OF history DEFAULT;

-- Lists are in the order of fire times, newest first. Most runs are only in the first two indexes.
CREATE INDEX history_of_tenant ON history (tenant, fire_time, id);
CREATE INDEX history_of_job ON history (job_id, fire_time, id);
CREATE INDEX history_unwell ON history (tenant, status, fire_time, id) WHERE status <> 'succeeded';
CREATE INDEX history_unwell_of_job ON history (job_id, status, fire_time, id) WHERE status <> 'succeeded';
-- Spans that reach into a range of time. Spans shorter than a day are separate from the others, because a search for
-- them needs to look back only one day.
CREATE INDEX history_spans ON history
  (tenant, (CASE WHEN fire_until - fire_time < 86400000000 THEN 0 ELSE 1 END), fire_time, id) WHERE fires > 1;
CREATE INDEX history_spans_of_job ON history
  (job_id, (CASE WHEN fire_until - fire_time < 86400000000 THEN 0 ELSE 1 END), fire_time, id) WHERE fires > 1;

CREATE TABLE attempts (
  run_id {id} NOT NULL,
  attempt BIGINT NOT NULL,
  token BIGINT NOT NULL,
  worker TEXT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT NOT NULL,
  failure TEXT,
  PRIMARY KEY (run_id, attempt)
) {daily run_id};

-- only: postgres
CREATE TABLE attempts_rest PARTITION OF attempts DEFAULT;

CREATE TABLE logs (
  run_id {id} NOT NULL,
  attempt BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  stream TEXT NOT NULL,
  at BIGINT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run_id, attempt, seq)
) {daily run_id};

-- only: postgres
CREATE TABLE logs_rest PARTITION OF logs DEFAULT;

CREATE TABLE workers (
  session {id} PRIMARY KEY,
  name TEXT NOT NULL,
  slots BIGINT NOT NULL,
  labels TEXT NOT NULL,
  tasks TEXT NOT NULL,
  version TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  lapsed BIGINT NOT NULL DEFAULT 0
) {clustered};

CREATE TABLE keys (
  id {id} PRIMARY KEY,
  tenant {id} NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  digest {id} NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
) {clustered};

CREATE TABLE tasks (
  tenant {id} NOT NULL,
  id {id} NOT NULL,
  spec TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
) {clustered};
