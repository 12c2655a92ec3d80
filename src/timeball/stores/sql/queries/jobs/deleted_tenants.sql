-- Tenants that are being deleted.

-- name: deleted_tenants
-- Those tenants that are being deleted, or were deleted.
SELECT b.id FROM {batch b: id text}
WHERE EXISTS (SELECT 1 FROM tenant_deletions d WHERE d.tenant = b.id)
  OR EXISTS (SELECT 1 FROM audit_log l WHERE l.chain = '*' AND l.resource_id = b.id AND l.action = 'tenant.deleted');
