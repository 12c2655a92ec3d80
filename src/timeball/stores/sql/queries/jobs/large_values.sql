-- Large values: parameters, results and output that are offloaded to object storage.

-- name: number_store
-- Set the number that separates the objects of this store from those of other stores, unless it is set.
INSERT INTO meta (name, value) VALUES ('objects', :number) ON CONFLICT (name) DO NOTHING;

-- name: number_of_store
-- The number that separates the objects of this store from those of other stores.
SELECT value FROM meta WHERE name = 'objects';

-- name: payloads_referred_to
-- The given objects that a spec refers to: a current or former spec of the job, the spec of a live run, or a spec
-- that a user edited for a run.
SELECT b.key FROM {batch b: owner text, key text}
WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.id = b.owner AND j.spec LIKE '%' || b.key || '%')
  OR EXISTS (SELECT 1 FROM job_versions v WHERE v.job_id = b.owner AND v.spec LIKE '%' || b.key || '%')
  OR EXISTS (SELECT 1 FROM runs r WHERE r.job_id = b.owner AND r.spec LIKE '%' || b.key || '%')
  OR EXISTS (SELECT 1 FROM runs r WHERE r.id = b.owner AND r.spec LIKE '%' || b.key || '%')
  OR EXISTS (SELECT 1 FROM edited_runs e WHERE e.run_id = b.owner AND e.spec LIKE '%' || b.key || '%');

-- name: results_referred_to
-- The given objects that are results, or may become one: their run is alive, or it is being removed and that may
-- be undone.
SELECT b.key FROM {batch b: owner text, key text}
WHERE EXISTS (SELECT 1 FROM runs r WHERE r.id = b.owner)
  OR EXISTS (SELECT 1 FROM history h WHERE {within h.id: b} AND h.id = b.owner AND h.result = '@' || b.key)
  OR EXISTS (SELECT 1 FROM departing d WHERE d.id = b.owner);

-- name: logs_referred_to
-- The given objects that are output. Objects of runs that are being removed are included, because the removal may be
-- undone.
SELECT b.key FROM {batch b: owner text, key text}
WHERE EXISTS (
    SELECT 1 FROM logs l WHERE {within l.run_id: b} AND l.run_id = b.owner AND l.stream = '@' AND l.text = b.key
  )
  OR EXISTS (SELECT 1 FROM departing d WHERE d.id = b.owner);

-- name: note_output_size
-- Store the size of the output of an attempt before it is replaced by a reference, for the usage of the tenant.
INSERT INTO offloaded_sizes (run_id, attempt, kind, bytes)
SELECT l.run_id, l.attempt, 'output', SUM({octets l.text})
FROM {batch b: run_id text, attempt bigint, seq bigint}
JOIN logs l ON l.run_id = b.run_id AND l.attempt = b.attempt AND l.seq = b.seq
WHERE {within l.run_id: b} AND l.stream <> '@' GROUP BY l.run_id, l.attempt;

-- name: drop_pieces
-- Delete rows of output.
DELETE FROM logs WHERE {within run_id: b} AND (run_id, attempt, seq) IN (
  SELECT run_id, attempt, seq FROM {batch b: run_id text, attempt bigint, seq bigint}
) AND stream <> '@';
