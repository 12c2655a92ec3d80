-- What people do with runs that ended: retry them as they were or edited, replay them, discard them.

-- The spec a job had up to a version, kept when it gets another one: what its runs until then executed.
CREATE TABLE job_versions (
  job_id {id} NOT NULL,
  version BIGINT NOT NULL,
  spec TEXT NOT NULL,
  PRIMARY KEY (job_id, version)
) {clustered};

-- The specs of runs that somebody edited.
CREATE TABLE edited_runs (
  run_id {id} PRIMARY KEY,
  spec TEXT NOT NULL
) {clustered};

-- The newest run that was made of this one when many were replayed at once.
ALTER TABLE history ADD COLUMN replayed_as {id};

CREATE INDEX history_letters ON history (tenant, id)
  WHERE status = 'dead' AND retried_as IS NULL AND discarded_at IS NULL;
CREATE INDEX history_by_error ON history (tenant, fingerprint, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX history_by_origin ON history (tenant, origin, id) WHERE origin <> 'schedule';
