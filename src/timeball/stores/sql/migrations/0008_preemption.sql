-- Preemption: running attempts that give their slots to waiting runs.
-- works with: 4

-- How often the attempt may still be preempted. NULL means never, and is the value of most runs.
ALTER TABLE runs ADD COLUMN preemptible BIGINT;
CREATE INDEX runs_preemptible ON runs (session) WHERE preemptible IS NOT NULL AND state = 'running';

-- Each preemption of a run: when it was requested, when the attempt was suspended, and when it was resumed or ended. A
-- waiting run has at most one open preemption.
CREATE TABLE preemptions (
  run_id {id} NOT NULL,
  number BIGINT NOT NULL,
  by_run {id} NOT NULL,
  attempt BIGINT NOT NULL,
  token BIGINT NOT NULL,
  asked_at BIGINT NOT NULL,
  paused_at BIGINT,
  ended_at BIGINT,
  PRIMARY KEY (run_id, number)
) {clustered};

CREATE UNIQUE INDEX preemptions_open ON preemptions (by_run) WHERE ended_at IS NULL;
