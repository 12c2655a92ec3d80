-- What is alive now. Every count ends at :limit.

-- name: due_runs
-- The first :limit waiting runs of a tenant in a state whose fire time has come, by how they are shown (see
-- `run_filters`): all, not due because of jitter, and waiting for another attempt; and since when the first of the others
-- waits.
SELECT COUNT(*),
  SUM(CASE WHEN {not_due} THEN 1 ELSE 0 END),
  SUM(CASE WHEN w.attempt > 0 AND w.due <= {now} THEN 1 ELSE 0 END),
  MIN(CASE WHEN w.attempt = 0 AND w.due <= {now} AND w.eligible_at <= {now} THEN w.eligible_at END)
FROM (
  SELECT COALESCE(r.due_at, r.fire_time) AS due, r.attempt, r.eligible_at FROM runs r
  WHERE r.tenant = :tenant AND r.state = {waiting} AND r.state <> {state.running} AND r.fire_time <= {now}
  ORDER BY r.fire_time, r.id LIMIT :limit
) AS w;

-- name: waiting_runs
-- The number of waiting runs of a tenant: those that are ready and blocked and whose fire time has come, those for which
-- it has not, and those that wait for another attempt. Read in indexes alone.
SELECT
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.state = {state.ready} AND r.state <> {state.running} AND r.fire_time <= {now} LIMIT :limit
  ) AS ready),
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.state = {state.blocked} AND r.state <> {state.running} AND r.fire_time <= {now} LIMIT :limit
  ) AS blocked),
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.state = {state.ready} AND r.state <> {state.running} AND r.fire_time > {now} LIMIT :limit
  ) AS ready_later),
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.state = {state.blocked} AND r.state <> {state.running} AND r.fire_time > {now} LIMIT :limit
  ) AS blocked_later),
  (SELECT COUNT(*) FROM (SELECT 1 FROM runs r
    WHERE r.tenant = :tenant AND r.state = {state.ready} AND r.attempt > 0 LIMIT :limit
  ) AS retrying);

-- name: running_runs
-- The running attempts of all tenants, by placement profile; of workflows, whose runs need no slot; and those of one
-- tenant.
SELECT r.profile, r.session = {session.weaver}, COUNT(*), SUM(CASE WHEN r.tenant = :tenant THEN 1 ELSE 0 END) FROM (
  SELECT r.profile, r.session, r.tenant FROM runs r WHERE r.state = {state.running} AND r.session > '' LIMIT :limit
) AS r GROUP BY r.profile, r.session = {session.weaver};

-- name: counted_jobs
-- Jobs that will fire, jobs that follow others and have no fire, and paused jobs.
SELECT
  (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j
    WHERE j.tenant = :tenant AND j.state = {job.active} AND j.next_fire_at IS NOT NULL LIMIT :limit
  ) AS firing),
  (SELECT COUNT(*) FROM (SELECT 1 FROM follows f CROSS JOIN jobs j
    WHERE j.id = f.follower AND j.tenant = :tenant AND j.state = {job.active} AND j.next_fire_at IS NULL LIMIT :limit
  ) AS following),
  (SELECT COUNT(*) FROM (SELECT 1 FROM jobs j
    WHERE j.tenant = :tenant AND j.state = {job.paused} AND j.state <> {job.active} LIMIT :limit
  ) AS paused);

-- name: leased_slots
-- The number of workers with a lease, and of their slots.
SELECT COUNT(*), COALESCE(SUM(w.slots), 0) FROM workers w WHERE w.lapsed = {lease.held} AND w.lease_until > {now};

-- name: upcoming_runs
-- The next runs of a tenant in a state that wait for their fire.
SELECT r.job_id, j.name, r.fire_time FROM runs r JOIN jobs j ON j.id = r.job_id
WHERE r.tenant = :tenant AND r.state = {waiting} AND r.state <> {state.running} AND r.fire_time > {now}
  AND r.origin IN ({origin.schedule}, {origin.catch_up})
ORDER BY r.fire_time, r.id LIMIT :limit;

-- name: upcoming_jobs
-- The jobs of a tenant that fire next, by their schedules, and whether they have a calendar.
SELECT j.id, j.name, j.next_fire_at, EXISTS (SELECT 1 FROM job_calendars c WHERE c.job_id = j.id) FROM jobs j
WHERE j.tenant = :tenant AND j.state = {job.active} AND j.next_fire_at IS NOT NULL ORDER BY j.next_fire_at, j.id LIMIT :limit;
