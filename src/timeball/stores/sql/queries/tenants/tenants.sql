-- Tenants.

-- name: tenant
-- A tenant.
SELECT {columns tenants t} FROM tenants t WHERE t.id = :id;

-- name: all_tenants
-- All tenants, in order.
SELECT {columns tenants t} FROM tenants t ORDER BY t.id;

-- name: tenant_limits
-- The limits of the tenants that have any.
SELECT t.id, t.limits FROM tenants t WHERE t.limits <> '{}';

-- name: list_tenants
-- A page of the tenants, in order.
SELECT {columns tenants t} FROM tenants t WHERE t.id > :after ORDER BY t.id LIMIT :limit;

-- name: lock_tenant
-- Lock and return a tenant.
SELECT {columns tenants t} FROM tenants t WHERE t.id = :id {lock t};

-- name: update_tenant
-- Replace what can be changed of a tenant, if it still has this version.
UPDATE tenants SET name = :name, description = :description, state = :state, limits = :limits,
  updated_at = :updated_at, version = version + 1
WHERE id = :id AND version = :version RETURNING version;

-- name: price_lists
-- The prices of tenants: the current limits, and each change of the prices, oldest first.
SELECT t.id, t.limits, p.day, p.prices FROM {batch b: id text} JOIN tenants t ON t.id = b.id
LEFT JOIN tenant_prices p ON p.tenant = t.id ORDER BY t.id, p.day;

-- name: has_prices
-- Whether the prices of a tenant have changed before.
SELECT 1 FROM tenant_prices WHERE tenant = :tenant LIMIT 1;

-- name: put_prices
-- Set the prices of a tenant from a day on.
INSERT INTO tenant_prices (tenant, day, prices) VALUES (:tenant, :day, :prices)
ON CONFLICT (tenant, day) DO UPDATE SET prices = excluded.prices;
