-- The definitions that jobs had.

-- name: keep_versions
-- Insert the specs that jobs had until now. The newest row of a job says when, and by which request, it got that spec.
INSERT INTO job_versions (job_id, version, spec, replaced_at, replaced_by, since_version, made_at, made_by)
SELECT b.job_id, b.version, b.spec, b.replaced_at, b.replaced_by,
  COALESCE(p.version + 1, 1), COALESCE(p.replaced_at, j.created_at), p.replaced_by
FROM {batch b: job_id text, version bigint, spec text, replaced_at bigint, replaced_by text}
JOIN jobs j ON j.id = b.job_id
LEFT JOIN job_versions p ON p.job_id = b.job_id
  AND p.version = (SELECT MAX(x.version) FROM job_versions x WHERE x.job_id = b.job_id);

-- name: version_to_trim
-- The newest former spec of a job beyond its :limit newest former specs.
SELECT v.version, v.since_version FROM job_versions v WHERE v.job_id = :job_id ORDER BY v.version DESC LIMIT 1 OFFSET :limit;

-- name: trim_version
-- Delete a former spec of a job, unless a run executed it. If the job has many runs, the spec stays until they are
-- deleted: to compare all of them would take too long. The job is locked.
DELETE FROM job_versions WHERE job_id = :job_id AND version = :version
  AND CASE WHEN (SELECT COUNT(*) FROM (SELECT 1 FROM runs r WHERE r.job_id = :job_id LIMIT :limit) AS live) < :limit
    THEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = :job_id AND r.version BETWEEN :since AND :version)
    ELSE false END
  AND CASE WHEN (SELECT COUNT(*) FROM (SELECT 1 FROM history h WHERE h.job_id = :job_id LIMIT :limit) AS ended) < :limit
    THEN NOT EXISTS (SELECT 1 FROM history h WHERE h.job_id = :job_id AND h.version BETWEEN :since AND :version)
    ELSE false END;

-- name: current_version
-- The current version of a job with the size of its spec, and the row of the spec before it.
SELECT j.version, {size j.spec}, j.spec LIKE '%"parametersAt":"%', COALESCE(p.version + 1, 1),
  COALESCE(p.replaced_at, j.created_at), p.replaced_by
FROM jobs j LEFT JOIN job_versions p ON p.job_id = j.id
  AND p.version = (SELECT MAX(x.version) FROM job_versions x WHERE x.job_id = j.id)
WHERE j.id = :job_id;

-- name: former_versions
-- The newest former specs of a job before a version, with their sizes. A row of an earlier version of Timeball does not
-- say when, and by which request, the job got its spec: that is when, and by which request, the spec of the row before
-- was replaced.
SELECT v.version, {size v.spec}, v.spec LIKE '%"parametersAt":"%', COALESCE(v.since_version, p.version + 1, 1),
  COALESCE(v.made_at, p.replaced_at, j.created_at), COALESCE(v.made_by, p.replaced_by)
FROM (
  SELECT n.* FROM job_versions n WHERE n.job_id = :job_id ORDER BY n.version DESC LIMIT :kept
) AS v JOIN jobs j ON j.id = v.job_id
LEFT JOIN job_versions p ON p.job_id = v.job_id
  AND p.version = (SELECT MAX(x.version) FROM job_versions x WHERE x.job_id = v.job_id AND x.version < v.version)
WHERE v.version < :before ORDER BY v.version DESC LIMIT :limit;

-- name: specs_of_versions
-- The specs of a job: the current one, and former ones.
SELECT j.version, j.spec FROM jobs j WHERE j.id = :job_id AND j.version {in b: bigint}
UNION ALL SELECT v.version, v.spec FROM job_versions v WHERE v.job_id = :job_id AND v.version {in b: bigint};
