-- Runs that make room for others.
-- works with: 4

-- How often it may still be asked to; NULL: never, as most.
ALTER TABLE runs ADD COLUMN preemptible BIGINT;
CREATE INDEX runs_preemptible ON runs (session) WHERE preemptible IS NOT NULL AND state = 'running';

-- Each time that a run made room: when it was asked to, stopped, and went on, or ended. Nobody makes room twice at a time
-- for the same run.
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
