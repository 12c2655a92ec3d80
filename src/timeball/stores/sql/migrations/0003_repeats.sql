-- Operations of users on finished runs: retry them unchanged or edited, replay them, discard them.

-- The spec that a job had up to a version, kept when the job gets a new one. Runs of that version executed it.
CREATE TABLE job_versions (
  job_id {id} NOT NULL,
  version BIGINT NOT NULL,
  spec TEXT NOT NULL,
  PRIMARY KEY (job_id, version)
) {clustered};

-- The specs of runs that a user edited.
CREATE TABLE edited_runs (
  run_id {id} PRIMARY KEY,
  spec TEXT NOT NULL
) {clustered};

-- The newest run that a replay created from this one.
ALTER TABLE history ADD COLUMN replayed_as {id};

-- The status is the same for all dead letters, but with it PostgreSQL chooses these indexes for them. The first index
-- covers grouping, so that the runs themselves are not read.
CREATE INDEX history_letters ON history
  (tenant, status, fire_time, id, fingerprint, job_id, finished_at, retried_as, discarded_at)
  WHERE status = 'dead' AND retried_as IS NULL AND discarded_at IS NULL;
DROP INDEX history_dead;
CREATE INDEX history_dead ON history (tenant, status, fingerprint, fire_time, id)
  WHERE status = 'dead' AND retried_as IS NULL AND discarded_at IS NULL;
CREATE INDEX history_by_error ON history (tenant, fingerprint, fire_time, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX history_by_origin ON history (tenant, origin, fire_time, id) WHERE origin <> 'schedule';
CREATE INDEX history_by_origin_of_job ON history (job_id, origin, fire_time, id) WHERE origin <> 'schedule';
