-- Calendars (times at which jobs do not fire), and the slots of jobs in their windows.
-- works with: 4

CREATE TABLE calendars (
  tenant {id} NOT NULL,
  name {id} NOT NULL,
  spec TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, name)
) {clustered};

-- The jobs that refer to a calendar of the same tenant.
CREATE TABLE job_calendars (
  job_id {id} NOT NULL,
  calendar {id} NOT NULL,
  tenant {id} NOT NULL,
  PRIMARY KEY (job_id, calendar)
) {clustered};

CREATE INDEX job_calendars_by_name ON job_calendars (tenant, calendar, job_id);

-- The last fire that calendars excluded, while it is deferred until they open.
ALTER TABLE jobs ADD COLUMN owed BIGINT;
CREATE INDEX jobs_owed ON jobs (tenant, id) WHERE owed IS NOT NULL;

-- The second of the day, in the time zone of the job, at which the job fires in its window.
ALTER TABLE jobs ADD COLUMN slot BIGINT;

-- The number of jobs with a slot in each minute of the day, in UTC with the offset at the time when the slot was
-- chosen.
CREATE TABLE slot_loads (
  minute BIGINT PRIMARY KEY,
  jobs BIGINT NOT NULL
) {clustered};
