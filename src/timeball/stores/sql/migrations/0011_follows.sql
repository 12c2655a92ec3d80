-- Jobs that follow other jobs.
-- works with: 5

-- The follow rules of jobs that can still fire: a job that was cancelled, or has fired as often as it may, has no row.
-- `last_at` is its newest fire time.
CREATE TABLE follows (
  follower {id} PRIMARY KEY,
  job_id {id} NOT NULL,
  on_success BIGINT NOT NULL,
  on_failure BIGINT NOT NULL,
  last_at BIGINT NOT NULL
) {clustered};

CREATE INDEX follows_of ON follows (job_id);

-- Upstream events: the ends of runs that other jobs follow. A row is written in the transaction that ends the run, and
-- deleted with the fire that it causes. `fire_time` is NULL until the follower has processed the event.
CREATE TABLE echoes (
  follower {id} NOT NULL,
  cause {id} NOT NULL,
  job_id {id} NOT NULL,
  status TEXT NOT NULL,
  ended_at BIGINT NOT NULL,
  fire_time BIGINT,
  PRIMARY KEY (follower, cause)
) {clustered};

CREATE INDEX echoes_unheard ON echoes (follower) WHERE fire_time IS NULL;
CREATE UNIQUE INDEX echoes_waiting ON echoes (follower, fire_time) WHERE fire_time IS NOT NULL;
