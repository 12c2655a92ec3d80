-- Statistics of the last day, and the fires of a tenant in the order of time.
-- works with: 5

-- How runs of a tenant ended, by intervals of `width` microseconds. `tally` is JSON, to which servers add.
CREATE TABLE run_stats (
  tenant {id} NOT NULL,
  width BIGINT NOT NULL,
  at BIGINT NOT NULL,
  tally TEXT NOT NULL,
  PRIMARY KEY (tenant, width, at)
) {clustered};

CREATE INDEX run_stats_by_age ON run_stats (width, at);

-- The number of the last batch that each server added: a batch that is sent twice is added once.
CREATE TABLE stats_writers (
  writer {id} PRIMARY KEY,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL
) {clustered};

CREATE INDEX jobs_upcoming ON jobs (tenant, next_fire_at, id) WHERE state = 'active' AND next_fire_at IS NOT NULL;

-- Runs that wait for another attempt, to be counted. Others are never in this index.
CREATE INDEX runs_to_retry ON runs (tenant, id) WHERE state = 'ready' AND attempt > 0;
