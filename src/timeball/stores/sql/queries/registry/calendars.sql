-- Calendars, and the jobs that refer to them. A transaction locks a calendar before any job.

-- name: calendars
-- Calendars by name.
SELECT c.tenant, c.name, c.spec, c.version, c.updated_at
FROM {batch b: tenant text, name text} JOIN calendars c ON c.tenant = b.tenant AND c.name = b.name;

-- name: share_calendars
-- The versions of calendars, with a shared lock: no transaction can change them until this one ends.
SELECT c.tenant, c.name, c.version
FROM {batch b: tenant text, name text} JOIN calendars c ON c.tenant = b.tenant AND c.name = b.name
ORDER BY c.tenant, c.name {share c};

-- name: keep_calendar
-- Lock and return a calendar.
SELECT c.spec, c.version, c.updated_at FROM calendars c WHERE c.tenant = :tenant AND c.name = :name {keep c};

-- name: list_calendars
-- A page of calendars, by name.
SELECT tenant, name, spec, version, updated_at FROM calendars
WHERE tenant = :tenant AND name > :after ORDER BY name LIMIT :limit;

-- name: put_calendar
-- Insert or replace a calendar. Its version grows.
INSERT INTO calendars (tenant, name, spec, version, updated_at) VALUES (:tenant, :name, :spec, 1, {now})
ON CONFLICT (tenant, name) DO UPDATE
SET spec = excluded.spec, version = calendars.version + 1, updated_at = excluded.updated_at
RETURNING version, updated_at;

-- name: delete_calendar
-- Delete a calendar.
DELETE FROM calendars WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: calendar_users
-- Jobs that refer to a calendar and may still fire.
SELECT j.id, j.name FROM job_calendars c JOIN jobs j ON j.id = c.job_id
WHERE c.tenant = :tenant AND c.calendar = :name
  AND j.state <> {job.cancelled} AND (j.next_fire_at IS NOT NULL OR j.plan_at IS NOT NULL OR j.state = {job.paused}
    OR EXISTS (SELECT 1 FROM follows f WHERE f.follower = j.id))
ORDER BY j.id LIMIT :limit;

-- name: planned_under
-- Jobs that refer to a calendar and have a run for a future fire.
SELECT DISTINCT c.job_id FROM job_calendars c JOIN runs r ON r.job_id = c.job_id
WHERE c.tenant = :tenant AND c.calendar = :name AND r.fire_time > {now}
  AND COALESCE(r.due_at, r.fire_time) > {now} AND r.origin IN ({origin.schedule}, {origin.catch_up});

-- name: held_under
-- The latest future fire whose run, of a job that refers to a calendar, was assigned to a worker already.
SELECT MAX(r.fire_time) FROM job_calendars c JOIN runs r ON r.job_id = c.job_id
WHERE c.tenant = :tenant AND c.calendar = :name AND r.fire_time > {now} AND r.state = {state.running}
  AND COALESCE(r.due_at, r.fire_time) > {now} AND r.origin IN ({origin.schedule}, {origin.catch_up});

-- name: deferred_under
-- Jobs that refer to a calendar and have a deferred fire, which runs when the calendar opens.
SELECT j.id FROM jobs j WHERE j.tenant = :tenant AND j.owed IS NOT NULL AND j.state = {job.active}
  AND EXISTS (SELECT 1 FROM job_calendars c WHERE c.job_id = j.id AND c.calendar = :name);

-- name: drop_calendars_of_jobs
-- Delete the references of jobs to calendars.
DELETE FROM job_calendars WHERE job_id {in b: text};

-- name: put_off_under
-- Jobs that refer to a calendar and whose planning failed.
SELECT f.job_id FROM planning_failures f JOIN job_calendars c ON c.job_id = f.job_id
WHERE c.tenant = :tenant AND c.calendar = :name;
