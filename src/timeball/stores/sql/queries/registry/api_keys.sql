-- API keys.

-- name: add_key
-- Insert a key. The same secret again changes nothing.
INSERT INTO keys (
  id, tenant, name, role, digest, created_at, revoked_at, scopes, labels, tenants, user_id, expires_at, replaces
) VALUES (
  :id, :tenant, :name, :role, :digest, :created_at, :revoked_at, :scopes, :labels, :tenants, :user_id, :expires_at,
  :replaces
) ON CONFLICT DO NOTHING;

-- name: key_by_digest
-- A key by its digest with the role of its user, unless it was revoked, its user is disabled, or its tenant is deleted.
SELECT {columns keys k}, u.role FROM keys k JOIN tenants t ON t.id = k.tenant AND t.state = {tenant.active}
LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
WHERE k.digest = :digest AND k.revoked_at IS NULL AND (k.user_id IS NULL OR u.state = {user.active});

-- name: key_by_id
-- A key of a tenant, also if it was revoked.
SELECT {columns keys k}, u.role FROM keys k LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
WHERE k.tenant = :tenant AND k.id = :id;

-- name: keys
-- All keys, newest first.
SELECT {columns keys k}, u.role FROM keys k LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
ORDER BY k.id DESC;

-- name: list_keys
-- A page of the keys of a tenant, newest first.
SELECT {columns keys k}, u.role FROM keys k LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.user_id
WHERE k.tenant = :tenant AND k.id < :before ORDER BY k.id DESC LIMIT :limit;

-- name: lock_key
-- Lock and return a key of a tenant, with 1 if it has expired, and 1 if a key that was not revoked replaces it.
SELECT {columns keys k}, NULL, CASE WHEN k.expires_at <= {now} THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM keys n WHERE n.tenant = k.tenant AND n.replaces = k.id AND n.revoked_at IS NULL)
    THEN 1 ELSE 0 END
FROM keys k WHERE k.tenant = :tenant AND k.id = :id {lock k};

-- name: expire_key
-- Let a key expire, unless it expires earlier.
UPDATE keys SET expires_at = {least}(COALESCE(expires_at, :expires_at), :expires_at) WHERE id = :id;

-- name: revoke_key
-- Revoke a key that was not revoked before.
UPDATE keys SET revoked_at = {now}, bootstrap = NULL WHERE id = :id AND revoked_at IS NULL RETURNING id, tenant;

-- name: bootstrap_keys
-- Lock and return the keys that came from the settings of servers, and the key with this digest.
SELECT k.digest, k.name, k.role, k.bootstrap, k.bootstrap_at, k.revoked_at, k.id FROM keys k
WHERE k.bootstrap IS NOT NULL OR k.digest = :digest {lock k};

-- name: mark_bootstrap_key
-- Mark the newest key that servers are started with, and make it valid even if it was revoked.
UPDATE keys SET bootstrap = :bootstrap, bootstrap_at = {now}, revoked_at = NULL WHERE digest = :digest;

-- name: restore_bootstrap_key
-- Make an older key from the settings valid again, beside the newest.
UPDATE keys SET revoked_at = NULL WHERE digest = :digest AND bootstrap IS NOT NULL;

-- name: revoke_bootstrap_keys
-- Revoke keys from the settings that were replaced.
UPDATE keys SET revoked_at = {now} WHERE digest {in b: text} AND bootstrap IS NOT NULL AND revoked_at IS NULL
RETURNING id;

-- name: probe_write
-- Write a row that nothing reads, to check that the database accepts writes.
INSERT INTO meta (name, value) VALUES ('probed_at', {now}) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
