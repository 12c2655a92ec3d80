-- Backfills: requests to run the fires of a past range.
-- works with: 4
-- Servers of that schema do not know such runs: upgrade all servers before a user creates a backfill.

-- `cursor_at` is the first fire that has no run yet. It moves in the transaction that inserts the runs before it.
CREATE TABLE backfills (
  id {id} PRIMARY KEY,
  tenant {id} NOT NULL,
  job_id {id} NOT NULL,
  spec TEXT NOT NULL,
  anchor BIGINT NOT NULL,
  since BIGINT NOT NULL,
  until BIGINT NOT NULL,
  parallelism BIGINT NOT NULL,
  total BIGINT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  cursor_at BIGINT,
  made BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  cancelled BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  finished_at BIGINT
) {clustered};

CREATE INDEX backfills_of_tenant ON backfills (tenant, id);
CREATE INDEX backfills_of_job ON backfills (job_id, id);
CREATE INDEX backfills_active ON backfills (id) WHERE state = 'active';

-- Finds the live runs of a backfill, which name it in `retry_of`, and allows one run for each fire.
CREATE UNIQUE INDEX runs_of_backfill ON runs (retry_of, fire_time) WHERE origin = 'backfill';
