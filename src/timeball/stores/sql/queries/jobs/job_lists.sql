-- Lists of jobs.

-- name: list_jobs
-- The ids of a page of jobs, newest first, with the sizes of their specs.
SELECT j.id, {size j.spec} FROM jobs j WHERE {where} ORDER BY j.id DESC LIMIT :limit;

-- name: list_jobs_by_tag
-- The ids of a page of jobs with a tag, newest first, with the sizes of their specs.
SELECT j.id, {size j.spec} FROM job_tags t CROSS JOIN jobs j
WHERE t.tag = :tag AND t.job_id < :before AND j.id = t.job_id AND {where} ORDER BY t.job_id DESC LIMIT :limit;

-- name: list_jobs_by_calendar
-- The ids of a page of jobs that refer to a calendar, newest first, with the sizes of their specs.
SELECT j.id, {size j.spec} FROM job_calendars c CROSS JOIN jobs j
WHERE c.tenant = :tenant AND c.calendar = :calendar AND c.job_id < :before AND j.id = c.job_id AND {where}
ORDER BY c.job_id DESC LIMIT :limit;

-- name: list_jobs_with_runs
-- The ids of a page of jobs that have no next fire but still have a live run, newest first.
SELECT j.id, {size j.spec} FROM (
  SELECT DISTINCT r.job_id FROM runs r JOIN jobs j ON j.id = r.job_id
  WHERE r.job_id < :before AND {where} ORDER BY r.job_id DESC LIMIT :limit
) AS alive JOIN jobs j ON j.id = alive.job_id ORDER BY j.id DESC;

-- name: list_idle_followers
-- The ids of a page of jobs that follow others and have no fire until an upstream run ends, newest first.
SELECT j.id, {size j.spec} FROM follows f CROSS JOIN jobs j
WHERE f.follower < :before AND j.id = f.follower AND {where} ORDER BY f.follower DESC LIMIT :limit;

-- name: search_jobs
-- Of the first jobs of a list, a page of those that match; and a row with the last job that was compared, and how many
-- were compared.
WITH examined (id, size) AS ({listing})
SELECT found.id, found.size, 1 FROM (
  SELECT e.id, e.size FROM examined e JOIN jobs j ON j.id = e.id WHERE {matches} ORDER BY e.id DESC LIMIT :page
) AS found
UNION ALL SELECT MIN(id), COUNT(*), 0 FROM examined;

-- name: count_jobs
-- The number of jobs of a list that match.
SELECT COUNT(*) FROM ({listing}) AS e JOIN jobs j ON j.id = e.id WHERE {matches};
