-- Maintenance by one server: its lease, and what is left of history that was removed.

-- The epoch grows with every change of the holder. The holder checks it in each of its transactions.
CREATE TABLE leases (
  name {id} PRIMARY KEY,
  holder {id} NOT NULL,
  epoch BIGINT NOT NULL,
  until BIGINT NOT NULL
) {clustered};

-- The number of fires of a day by verdict, of runs that are no longer in the history.
CREATE TABLE daily_sums (
  job_id {id} NOT NULL,
  day BIGINT NOT NULL,
  verdict TEXT NOT NULL,
  fires BIGINT NOT NULL,
  PRIMARY KEY (job_id, day, verdict)
) {clustered};

CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- When the job got a new spec: runs that were created later do not refer to this one.
ALTER TABLE job_versions ADD COLUMN replaced_at BIGINT NOT NULL DEFAULT 0;
UPDATE job_versions SET replaced_at = {now};
CREATE INDEX job_versions_by_age ON job_versions (replaced_at);

-- Days of history that are being removed: their partitions become children of this table, which has no rows of its own,
-- and do not change while they are counted. Runs up to `upto` are in the daily sums already.
-- only: postgres
CREATE TABLE departing (LIKE history);

CREATE TABLE departures (
  day BIGINT PRIMARY KEY,
  since {id} NOT NULL,
  upto {id} NOT NULL
) {clustered};

-- only: sqlite
CREATE VIEW departing AS SELECT id, job_id, origin, fire_time, fire_until, fires, verdict FROM history WHERE false;
