-- Priorities, ordering keys, gates and placement. Jobs that use none of these write nothing here.

ALTER TABLE jobs ADD COLUMN fired BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN paused_until BIGINT;
CREATE INDEX jobs_to_resume ON jobs (paused_until) WHERE state = 'paused' AND paused_until IS NOT NULL;

-- Why a run is blocked: the sum of 1 (an earlier run of its job is alive), 2 (another run holds its ordering key) and 4
-- (it waits at a gate). Each bit is set and cleared under a lock of its own. The run is ready when the sum is 0.
ALTER TABLE runs ADD COLUMN holds BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET holds = 1 WHERE state = 'blocked';
-- The fire time plus jitter, if the job has jitter.
ALTER TABLE runs ADD COLUMN due_at BIGINT;
ALTER TABLE runs ADD COLUMN start_by BIGINT;
ALTER TABLE runs ADD COLUMN ordering_key {id};
ALTER TABLE runs ADD COLUMN gated BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN profile {id};
-- The gate at which the run waits, and its place in the queue.
ALTER TABLE runs ADD COLUMN gate {id};
ALTER TABLE runs ADD COLUMN gate_rank BIGINT;
-- When the run passed the gate; kept until the run is claimed.
ALTER TABLE runs ADD COLUMN let_at BIGINT;
-- What a running attempt holds: a permit of its concurrency key, and CPU and memory of its worker.
ALTER TABLE runs ADD COLUMN permit {id};
ALTER TABLE runs ADD COLUMN needs {id};
ALTER TABLE runs ADD COLUMN cancel_reason TEXT;
ALTER TABLE runs ADD COLUMN kill BIGINT NOT NULL DEFAULT 0;

DROP INDEX runs_to_claim;
CREATE INDEX runs_to_claim ON runs (priority, eligible_at, fire_time, id) WHERE state = 'ready' AND profile IS NULL;
CREATE INDEX runs_to_fit ON runs (profile, eligible_at, fire_time, id) WHERE state = 'ready' AND profile IS NOT NULL;
CREATE INDEX runs_in_turn ON runs (tenant, ordering_key, fire_time, id) WHERE ordering_key IS NOT NULL;
CREATE INDEX runs_at_gate ON runs (tenant, gate, gate_rank, id) WHERE gate IS NOT NULL AND state = 'blocked';
CREATE INDEX runs_let_through ON runs (tenant, gate, let_at) WHERE gate IS NOT NULL AND state = 'ready';
CREATE INDEX runs_permitted ON runs (tenant, permit) WHERE permit IS NOT NULL;
CREATE INDEX runs_to_expire ON runs (start_by) WHERE start_by IS NOT NULL AND state <> 'running' AND attempt = 0;

-- The holder of each ordering key: a live run, or a failed or dead one that was not retried or discarded.
CREATE TABLE turns (
  tenant {id} NOT NULL,
  ordering_key {id} NOT NULL,
  holder {id},
  PRIMARY KEY (tenant, ordering_key)
) {clustered};

CREATE INDEX turns_of_holder ON turns (holder) WHERE holder IS NOT NULL;

-- Limits at which runs wait for a permit, a rate token or a host, and when the gate must be checked next.
CREATE TABLE gates (
  tenant {id} NOT NULL,
  gate {id} NOT NULL,
  capacity BIGINT NOT NULL DEFAULT 0,
  pace BIGINT NOT NULL DEFAULT 0,
  spent_until BIGINT NOT NULL DEFAULT 0,
  failures BIGINT NOT NULL DEFAULT 0,
  failed_at BIGINT NOT NULL DEFAULT 0,
  open_until BIGINT,
  rests BIGINT NOT NULL DEFAULT 0,
  probe {id},
  look_at BIGINT,
  PRIMARY KEY (tenant, gate)
) {clustered};

CREATE INDEX gates_to_look_at ON gates (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX gates_unwell ON gates (tenant, gate) WHERE failures > 0;
CREATE INDEX gates_probed ON gates (probe) WHERE probe IS NOT NULL;

-- The placement profiles of runs that not every worker can execute.
CREATE TABLE profiles (
  profile {id} PRIMARY KEY,
  used_at BIGINT NOT NULL
) {clustered};

-- CPU and memory that a worker offers; -1 means unlimited.
ALTER TABLE workers ADD COLUMN cpu BIGINT NOT NULL DEFAULT -1;
ALTER TABLE workers ADD COLUMN memory BIGINT NOT NULL DEFAULT -1;
ALTER TABLE workers ADD COLUMN dedicated BIGINT NOT NULL DEFAULT 0;
-- The placement profile of a waiting run for which this worker is reserved, and until when.
ALTER TABLE workers ADD COLUMN reserved_for {id};
ALTER TABLE workers ADD COLUMN reserved_until BIGINT NOT NULL DEFAULT 0;

ALTER TABLE history ADD COLUMN due_at BIGINT;
ALTER TABLE history ADD COLUMN fingerprint {id};
ALTER TABLE history ADD COLUMN discarded_at BIGINT;
CREATE INDEX history_dead ON history (tenant, fingerprint, id)
  WHERE status = 'dead' AND retried_as IS NULL AND discarded_at IS NULL;

ALTER TABLE attempts ADD COLUMN claimed_at BIGINT;
ALTER TABLE attempts ADD COLUMN eligible_at BIGINT;
