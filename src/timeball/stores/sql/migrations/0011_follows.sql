-- Jobs that follow other jobs.
-- works with: 5

-- Who follows whom, as long as that may come to something: neither is there anything here of a job that was cancelled, nor
-- of one that has fired as often as it may. `last_at` is the newest of its instants.
CREATE TABLE follows (
  follower {id} PRIMARY KEY,
  job_id {id} NOT NULL,
  on_success BIGINT NOT NULL,
  on_failure BIGINT NOT NULL,
  last_at BIGINT NOT NULL
) {clustered};

CREATE INDEX follows_of ON follows (job_id);

-- Ends of runs that others follow: written with the end, gone with the fire that comes of it. `fire_time` is its instant,
-- once the job that follows has heard of it.
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
