-- Registered tasks.

-- name: put_task
-- Insert or replace a registered task. Its version grows, unless this statement repeats one whose answer was lost.
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
SELECT id, {size spec} FROM tasks WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;

-- name: tasks_by_id
-- Registered tasks by id.
SELECT t.id, t.tenant, t.spec, t.version, t.updated_at FROM {batch b: id text} JOIN tasks t ON t.id = b.id
WHERE t.tenant = :tenant ORDER BY t.id;

-- name: lock_task
-- Lock and return a registered task.
SELECT t.id FROM tasks t WHERE t.tenant = :tenant AND t.id = :id {lock t};

-- name: task_users
-- One job that is not cancelled and refers to a registered task; no row if there is none.
SELECT id FROM jobs WHERE tenant = :tenant AND task_id = :id AND task_id IS NOT NULL AND state <> {job.cancelled} LIMIT 1;

-- name: delete_task
-- Delete a registered task.
DELETE FROM tasks WHERE tenant = :tenant AND id = :id RETURNING id;
