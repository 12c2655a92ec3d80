-- What is alive now. Every count ends at :limit.

-- name: due_runs
-- The first :limit waiting runs of a tenant in a state whose fire time has come. Returned are their number; how many of
-- them are not due yet because of jitter; how many wait for another attempt; and since when the oldest of the other
-- runs waits.
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
-- The numbers of waiting runs of a tenant: ready and blocked runs whose fire time has come, ready and blocked runs
-- whose fire time has not come, and ready runs that wait for another attempt. The statement reads only indexes.
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
-- The numbers of running runs of a tenant, by placement profile and by whether they are workflow runs, which need no
-- slot, and of running runs that were read.
SELECT r.profile, r.session = {session.weaver}, SUM(CASE WHEN r.tenant = :tenant THEN 1 ELSE 0 END), COUNT(*) FROM (
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
-- The number of workers with a lease, and of their slots, by what the workers accept.
SELECT COUNT(*), SUM(w.slots), w.labels, w.dedicated FROM workers w
WHERE w.lapsed = {lease.held} AND w.lease_until > {now} GROUP BY w.labels, w.dedicated;

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
