-- Who goes first, who waits for whom. Nothing here is written for jobs that use none of it.

ALTER TABLE jobs ADD COLUMN fired BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN paused_until BIGINT;
CREATE INDEX jobs_to_resume ON jobs (paused_until) WHERE state = 'paused' AND paused_until IS NOT NULL;

-- Why a run is blocked: the sum of 1 (an earlier run of its job is alive), 2 (it is not its turn under its ordering
-- key) and 4 (it waits at a gate). Each is set and taken away under another lock; it is ready when none is left.
ALTER TABLE runs ADD COLUMN holds BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET holds = 1 WHERE state = 'blocked';
-- The fire time and its jitter, where there is some.
ALTER TABLE runs ADD COLUMN due_at BIGINT;
ALTER TABLE runs ADD COLUMN start_by BIGINT;
ALTER TABLE runs ADD COLUMN ordering_key {id};
ALTER TABLE runs ADD COLUMN gated BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN profile {id};
-- The gate at which it waits, and its place there.
ALTER TABLE runs ADD COLUMN gate {id};
ALTER TABLE runs ADD COLUMN gate_rank BIGINT;
-- When it was let through that gate, until it is claimed.
ALTER TABLE runs ADD COLUMN let_at BIGINT;
-- What it holds while it runs: a place under its concurrency key, a share of its worker.
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

-- Whose turn it is under an ordering key: a live run, or one that gave up and that nobody dealt with yet.
CREATE TABLE turns (
  tenant {id} NOT NULL,
  ordering_key {id} NOT NULL,
  holder {id},
  PRIMARY KEY (tenant, ordering_key)
) {clustered};

CREATE INDEX turns_of_holder ON turns (holder) WHERE holder IS NOT NULL;

-- Where runs wait for a permit, a token or a host, and when somebody has to look whether one may go.
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

-- The kinds of runs that not every worker can take.
CREATE TABLE profiles (
  profile {id} PRIMARY KEY,
  used_at BIGINT NOT NULL
) {clustered};

-- What workers offer beside slots; -1: as much as anybody asks for.
ALTER TABLE workers ADD COLUMN cpu BIGINT NOT NULL DEFAULT -1;
ALTER TABLE workers ADD COLUMN memory BIGINT NOT NULL DEFAULT -1;
ALTER TABLE workers ADD COLUMN dedicated BIGINT NOT NULL DEFAULT 0;
-- The kind of runs one of which waits until this worker has room for it, and how long it is kept free for that.
ALTER TABLE workers ADD COLUMN reserved_for {id};
ALTER TABLE workers ADD COLUMN reserved_until BIGINT NOT NULL DEFAULT 0;

ALTER TABLE history ADD COLUMN due_at BIGINT;
ALTER TABLE history ADD COLUMN fingerprint {id};
ALTER TABLE history ADD COLUMN discarded_at BIGINT;
CREATE INDEX history_dead ON history (tenant, fingerprint, id)
  WHERE status = 'dead' AND retried_as IS NULL AND discarded_at IS NULL;

ALTER TABLE attempts ADD COLUMN claimed_at BIGINT;
ALTER TABLE attempts ADD COLUMN eligible_at BIGINT;
