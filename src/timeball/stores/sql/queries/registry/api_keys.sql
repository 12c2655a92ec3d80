-- API keys.

-- name: add_key
-- Insert a key. The same secret again changes nothing.
INSERT INTO keys (id, tenant, name, role, digest, created_at, revoked_at)
VALUES (:id, :tenant, :name, :role, :digest, :created_at, :revoked_at) ON CONFLICT DO NOTHING;

-- name: key_by_digest
-- A key by its digest, unless it was revoked.
SELECT id, tenant, name, role, digest, created_at, revoked_at FROM keys
WHERE digest = :digest AND revoked_at IS NULL;

-- name: keys
-- All keys, newest first.
SELECT id, tenant, name, role, digest, created_at, revoked_at FROM keys ORDER BY id DESC;

-- name: revoke_key
-- Revoke a key that was not revoked before.
UPDATE keys SET revoked_at = {now}, bootstrap = NULL WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- name: bootstrap_keys
-- Lock and return the keys that came from the settings of servers, and the key with this digest.
SELECT k.digest, k.name, k.role, k.bootstrap, k.bootstrap_at, k.revoked_at FROM keys k
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
-- Write a row without meaning, to check that the database accepts writes.
INSERT INTO meta (name, value) VALUES ('probed_at', {now}) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
