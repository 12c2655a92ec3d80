-- Recounts of what is stored for tenants.

-- name: stored_bytes
-- The count of stored bytes of a tenant, and what is stored for it, in parts: one statement, so that both are of the
-- same moment. Of parameters in the object storage it returns the specs, whose references name the sizes.
SELECT 'counted' AS part, CAST(q.stored_bytes AS bigint) AS bytes, '' AS spec FROM quota_use q WHERE q.tenant = :tenant
UNION ALL
SELECT 'specs', CAST(SUM({octets j.spec}) AS bigint), '' FROM jobs j WHERE j.tenant = :tenant
UNION ALL
SELECT 'versions', CAST(SUM({octets v.spec}) AS bigint), ''
FROM jobs j JOIN job_versions v ON v.job_id = j.id WHERE j.tenant = :tenant
UNION ALL
SELECT 'edits', CAST(SUM({octets e.spec}) AS bigint), '' FROM edited_runs e WHERE {of_edited}
UNION ALL
SELECT 'parameters', 0, j.spec FROM jobs j WHERE j.tenant = :tenant AND j.spec LIKE '%"parametersAt"%'
UNION ALL
SELECT 'parameters', 0, v.spec FROM jobs j JOIN job_versions v ON v.job_id = j.id
WHERE j.tenant = :tenant AND v.spec LIKE '%"parametersAt"%'
UNION ALL
SELECT 'parameters', 0, e.spec FROM edited_runs e WHERE e.spec LIKE '%"parametersAt"%' AND {of_edited}
UNION ALL
SELECT 'results', CAST(SUM({octets h.result}) AS bigint), '' FROM history h
WHERE h.tenant = :tenant AND h.result IS NOT NULL AND h.result NOT LIKE '@results/%'
UNION ALL
SELECT 'output', CAST(SUM({octets l.text}) AS bigint), '' FROM history h JOIN logs l ON l.run_id = h.id
WHERE h.tenant = :tenant AND l.stream <> '@'
UNION ALL
SELECT 'output', CAST(SUM({octets l.text}) AS bigint), '' FROM runs r JOIN logs l ON l.run_id = r.id
WHERE r.tenant = :tenant AND l.stream <> '@'
UNION ALL
SELECT 'objects', CAST(SUM(o.bytes) AS bigint), '' FROM offloaded_sizes o WHERE {of_offloaded};

-- name: is_run_of_tenant
-- Whether a run belongs to a tenant.
(EXISTS (SELECT 1 FROM history h WHERE h.id = {run_id} AND h.tenant = :tenant)
  OR EXISTS (SELECT 1 FROM runs r WHERE r.id = {run_id} AND r.tenant = :tenant))
