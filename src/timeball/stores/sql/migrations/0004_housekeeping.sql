-- What one server does for all: who it is, and what is left of history that has gone.

-- The epoch grows with every change of the holder, and who holds it checks that in each of his transactions.
CREATE TABLE leases (
  name {id} PRIMARY KEY,
  holder {id} NOT NULL,
  epoch BIGINT NOT NULL,
  until BIGINT NOT NULL
) {clustered};

-- How many instants of a day got which verdict, of runs that are not in the history any more.
CREATE TABLE daily_sums (
  job_id {id} NOT NULL,
  day BIGINT NOT NULL,
  verdict TEXT NOT NULL,
  fires BIGINT NOT NULL,
  PRIMARY KEY (job_id, day, verdict)
) {clustered};

CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- When the job got another spec: runs that were made later do not refer to this one.
ALTER TABLE job_versions ADD COLUMN replaced_at BIGINT NOT NULL DEFAULT 0;
UPDATE job_versions SET replaced_at = {now};
CREATE INDEX job_versions_by_age ON job_versions (replaced_at);

-- Days of history on their way out: their partitions become children of this table, which has no row of its own, and
-- stand still while they are counted. Up to `upto` they are in the daily sums already.
-- only: postgres
CREATE TABLE departing (LIKE history);

CREATE TABLE departures (
  day BIGINT PRIMARY KEY,
  since {id} NOT NULL,
  upto {id} NOT NULL
) {clustered};

-- only: sqlite
CREATE VIEW departing AS SELECT id, job_id, origin, fire_time, fire_until, fires, verdict FROM history WHERE false;
