-- Usage of tenants, for their costs.
-- works with: 5

-- What runs used, by the day on which their attempts ended and by the resources that they asked for. `job_id` is empty
-- for jobs that were deleted with their runs.
CREATE TABLE usage_sums (
  tenant {id} NOT NULL,
  day BIGINT NOT NULL,
  user_id {id} NOT NULL,
  job_id {id} NOT NULL,
  -- Thousandths of a CPU, and MiB.
  cpu BIGINT NOT NULL,
  memory BIGINT NOT NULL,
  runs BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  micros BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (tenant, day, user_id, job_id, cpu, memory)
) {clustered};

CREATE INDEX usage_sums_of_job ON usage_sums (job_id) WHERE job_id <> '';

-- The id up to which runs are in the sums, unless they are pending.
CREATE TABLE usage_marks (
  name {id} PRIMARY KEY,
  upto {id} NOT NULL
) {clustered};

-- Runs that were alive when their turn to be added to the sums came.
CREATE TABLE usage_pending (
  run_id {id} PRIMARY KEY
) {clustered};

-- Sizes of output and results that are objects in the object storage.
CREATE TABLE offloaded_sizes (
  run_id {id} NOT NULL,
  attempt BIGINT NOT NULL,
  kind {id} NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (run_id, attempt, kind)
) {clustered};

-- The prices of a tenant from a day on, as JSON. No rows: they have never changed.
CREATE TABLE tenant_prices (
  tenant {id} NOT NULL,
  day BIGINT NOT NULL,
  prices TEXT NOT NULL,
  PRIMARY KEY (tenant, day)
) {clustered};
