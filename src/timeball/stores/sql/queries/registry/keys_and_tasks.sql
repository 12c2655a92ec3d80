-- Keys and registered tasks.

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

-- name: put_task
-- Create or replace a registered task; its version grows, but not if this repeats a statement whose answer was lost.
INSERT INTO tasks (tenant, id, spec, version, updated_at)
VALUES (:tenant, :id, :spec, 1, :updated_at)
ON CONFLICT (tenant, id) DO UPDATE
SET spec = excluded.spec, updated_at = excluded.updated_at, version = tasks.version
  + CASE WHEN tasks.spec = excluded.spec AND tasks.updated_at = excluded.updated_at THEN 0 ELSE 1 END
RETURNING version;

-- name: task
-- A registered task.
SELECT id, tenant, spec, version, updated_at FROM tasks WHERE tenant = :tenant AND id = :id;

-- name: list_tasks
-- The ids of a page of registered tasks, in order, with the sizes of their specs.
SELECT id, {size spec} FROM tasks WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :most;

-- name: tasks_by_id
-- Registered tasks as they are.
SELECT t.id, t.tenant, t.spec, t.version, t.updated_at FROM {batch b: id text} JOIN tasks t ON t.id = b.id
WHERE t.tenant = :tenant ORDER BY t.id;

-- name: lock_task
-- A registered task, kept from every other writer.
SELECT t.id FROM tasks t WHERE t.tenant = :tenant AND t.id = :id {lock t};

-- name: task_users
-- A job that is not cancelled and refers to a task.
SELECT id FROM jobs WHERE tenant = :tenant AND task_id = :id AND task_id IS NOT NULL AND state <> 'cancelled' LIMIT 1;

-- name: delete_task
-- Forget a registered task.
DELETE FROM tasks WHERE tenant = :tenant AND id = :id RETURNING id;

-- name: probe_write
-- A write of no consequence, to find out whether writes succeed.
INSERT INTO meta (name, value) VALUES ('probed_at', {now}) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
