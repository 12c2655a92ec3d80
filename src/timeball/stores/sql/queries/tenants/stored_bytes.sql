-- Stored bytes of tenants with a quota of them.

-- name: tenants_of_runs
-- Those of the given live runs that belong to some tenants, each with its tenant.
SELECT r.id, r.tenant FROM runs r WHERE r.id {in b: text} AND {unindexed_text r.tenant} {in tenants: text};

-- name: chunks_that_exist
-- Those of the given chunks of output that are stored.
SELECT l.run_id, l.attempt, l.seq FROM {batch b: run_id text, attempt bigint, seq bigint}
JOIN logs l ON l.run_id = b.run_id AND l.attempt = b.attempt AND l.seq = b.seq WHERE {within l.run_id: b};

-- name: sizes_of_results
-- The results of the given ended runs of some tenants: run, tenant and bytes.
SELECT h.id, h.tenant,
  CASE WHEN h.result IS NULL OR h.result LIKE '@results/%' THEN 0 ELSE {octets h.result} END
    + COALESCE((SELECT SUM(o.bytes) FROM offloaded_sizes o WHERE o.run_id = h.id AND o.kind = 'result'), 0)
FROM {batch b: id text} {each_within history h: b.id} WHERE h.tenant {in tenants: text};

-- name: stored_bytes
-- What is stored for a tenant, in parts, beside what was counted: one statement, so that both are of the same moment. Of
-- parameters in the object storage it returns the specs, whose references name the sizes.
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
