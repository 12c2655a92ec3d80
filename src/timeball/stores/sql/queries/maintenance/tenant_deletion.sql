-- The deletion of tenants with all that they own. Names of tables and columns come from `owned_tables`.

-- name: mark_as_deleting
-- Mark a tenant as being deleted.
UPDATE tenants SET state = {tenant.deleting}, version = version + 1, updated_at = {now} WHERE id = :tenant;

-- name: close_audit_chain
-- Accept no more entries of a chain, and let the entries be deleted.
UPDATE audit_heads SET closing = 1 WHERE chain = :tenant;

-- name: deletions
-- The tenants that are being deleted, in the order of the requests.
SELECT {columns tenant_deletions d} FROM tenant_deletions d ORDER BY d.requested_at, d.tenant;

-- name: lock_deletion
-- Lock and return the deletion of a tenant.
SELECT {columns tenant_deletions d} FROM tenant_deletions d WHERE d.tenant = :tenant {keep d};

-- name: note_deletion
-- Store how far the deletion of a tenant is.
UPDATE tenant_deletions SET phase = :phase, place = :place, counts = :counts WHERE tenant = :tenant;

-- name: deletion_receipt
-- Whether a tenant with this id was deleted.
SELECT 1 FROM audit_log l WHERE l.chain = '*' AND l.resource_id = :tenant AND l.action = 'tenant.deleted' LIMIT 1;

-- name: stop_jobs_of_tenant
-- Cancel some jobs of a tenant.
UPDATE jobs SET state = {job.cancelled}, next_fire_at = NULL, plan_at = NULL, owed = NULL, version = version + 1
WHERE id IN (
  SELECT j.id FROM jobs j WHERE j.tenant = :tenant AND j.state <> {job.cancelled} ORDER BY j.id LIMIT :limit
);

-- name: owned_by_tenant
-- Those ids of jobs and runs that are of a tenant.
SELECT b.id FROM {batch b: id text}
WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.id = b.id AND j.tenant = :tenant)
  OR EXISTS (SELECT 1 FROM runs r WHERE r.id = b.id AND r.tenant = :tenant)
  OR EXISTS (SELECT 1 FROM history h WHERE h.id = b.id AND h.tenant = :tenant);

-- name: ids_of_tenant
-- Some rows of a table that are of a tenant.
SELECT t.id FROM {table} t WHERE t.tenant = :tenant {condition} LIMIT :limit;

-- name: delete_children
-- Delete some rows that belong to rows of another table. The first condition finds them by an index.
DELETE FROM {table} WHERE {column} {in b: text}
  AND ({key}) IN (SELECT {key} FROM {table} WHERE {column} {in b: text} LIMIT :limit);

-- name: delete_parents
-- Delete rows to which no others belong any more.
DELETE FROM {table} WHERE id {in b: text};

-- name: delete_of_tenant
-- Delete some rows of a table that are of a tenant.
DELETE FROM {table} WHERE {column} = :tenant
  AND ({key}) IN (SELECT {key} FROM {table} WHERE {column} = :tenant LIMIT :limit);

-- name: delete_profiles_of_tenant
-- Delete placement profiles that end with the label of a tenant.
DELETE FROM profiles WHERE profile IN (
  SELECT p.profile FROM profiles p WHERE substr(p.profile, length(p.profile) - length(:label) + 1) = :label LIMIT :limit
);

-- name: has_profiles
-- Whether there is a placement profile that ends with the label of a tenant.
SELECT 1 FROM profiles p WHERE substr(p.profile, length(p.profile) - length(:label) + 1) = :label LIMIT 1;

-- name: has_rows_of_tenant
-- Whether a table has rows of a tenant.
SELECT 1 FROM {table} WHERE {column} = :tenant LIMIT 1;

-- name: has_departures
-- Whether days of history are being removed.
SELECT 1 FROM departures LIMIT 1;

-- name: drop_audit_head
-- Delete the end of a chain.
DELETE FROM audit_heads WHERE chain = :tenant;

-- name: drop_tenant
-- Delete a tenant.
DELETE FROM tenants WHERE id = :tenant;

-- name: drop_deletion
-- End the deletion of a tenant.
DELETE FROM tenant_deletions WHERE tenant = :tenant;
