-- API keys.

-- name: add_key
-- Keep a key; the same secret again changes nothing.
INSERT INTO keys (id, tenant, name, role, digest, created_at, revoked_at)
VALUES (:id, :tenant, :name, :role, :digest, :created_at, :revoked_at) ON CONFLICT DO NOTHING;

-- name: key_by_digest
-- An unrevoked key.
SELECT id, tenant, name, role, digest, created_at, revoked_at FROM keys
WHERE digest = :digest AND revoked_at IS NULL;

-- name: keys
-- All keys, newest first.
SELECT id, tenant, name, role, digest, created_at, revoked_at FROM keys ORDER BY id DESC;

-- name: revoke_key
-- Take a key's rights, once.
UPDATE keys SET revoked_at = {now}, bootstrap = NULL WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- name: bootstrap_keys
-- The keys that came from servers' settings, and the one with a digest.
SELECT k.digest, k.name, k.role, k.bootstrap, k.bootstrap_at, k.revoked_at FROM keys k
WHERE k.bootstrap IS NOT NULL OR k.digest = :digest {lock k};

-- name: mark_bootstrap_key
-- The newest key that servers are started with, valid whatever it was.
UPDATE keys SET bootstrap = :bootstrap, bootstrap_at = {now}, revoked_at = NULL WHERE digest = :digest;

-- name: restore_bootstrap_key
-- An older one, valid beside the newest.
UPDATE keys SET revoked_at = NULL WHERE digest = :digest AND bootstrap IS NOT NULL;

-- name: revoke_bootstrap_keys
-- Those that were replaced.
UPDATE keys SET revoked_at = {now} WHERE digest {in b: text} AND bootstrap IS NOT NULL AND revoked_at IS NULL
RETURNING id;

-- name: probe_write
-- A write of no consequence, to find out whether writes succeed.
INSERT INTO meta (name, value) VALUES ('probed_at', {now}) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
