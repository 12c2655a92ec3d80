-- When jobs do not fire, and where in its window each does.
-- works with: 4

CREATE TABLE calendars (
  tenant {id} NOT NULL,
  name {id} NOT NULL,
  spec TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, name)
) {clustered};

-- Which jobs refer to which calendars, of the same tenant.
CREATE TABLE job_calendars (
  job_id {id} NOT NULL,
  calendar {id} NOT NULL,
  tenant {id} NOT NULL,
  PRIMARY KEY (job_id, calendar)
) {clustered};

CREATE INDEX job_calendars_by_name ON job_calendars (tenant, calendar, job_id);

-- The last instant that calendars excluded, while a fire is owed for it.
ALTER TABLE jobs ADD COLUMN owed BIGINT;
CREATE INDEX jobs_owed ON jobs (tenant, id) WHERE owed IS NOT NULL;

-- The second of the day, on the clocks of its zone, that a job has in its window.
ALTER TABLE jobs ADD COLUMN slot BIGINT;

-- How many jobs fire in a minute of the day, of those that have such minutes: in UTC, by the clocks of when they were
-- made.
CREATE TABLE slot_loads (
  minute BIGINT PRIMARY KEY,
  jobs BIGINT NOT NULL
) {clustered};
