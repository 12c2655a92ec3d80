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
