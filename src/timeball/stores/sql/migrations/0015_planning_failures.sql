-- Jobs whose planning failed, and why.
-- works with: 5

-- A row counts only while the job has the same version and the same plan_at: any plan or change of the job outdates it.
CREATE TABLE planning_failures (
  job_id {id} PRIMARY KEY,
  version BIGINT NOT NULL,
  plan_at BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  since BIGINT NOT NULL,
  reason TEXT NOT NULL
) {clustered};
