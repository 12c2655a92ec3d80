"""Tasks that are registered under a name."""

from __future__ import annotations

import msgspec

from timeball.domain.errors import Conflict
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import RegisteredTask
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.page_bytes import ids_that_fit
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.registry.versions import require_version
from timeball.stores.sql.rows.values import as_json, plain
from timeball.stores.sql.runs import claim_kinds
from timeball.stores.sql.statements import query

PUT_TASK = query("put_task")
TASK = query("task")
LIST_TASKS = query("list_tasks")
TASKS_BY_ID = query("tasks_by_id")
LOCK_TASK = query("lock_task")
TASK_USERS = query("task_users")
DELETE_TASK = query("delete_task")


class Tasks(StorePart):
    async def put_task(self, task: RegisteredTask, if_match: int | None = None) -> RegisteredTask:
        spec = as_json(task.spec)

        async def work(tx: Tx) -> RegisteredTask:
            before = await _locked(tx, task.tenant, task.id, read=if_match is not None)
            if before is None or before.spec != task.spec:
                require_version("task", task.id, 0 if before is None else before.version, if_match)
            ((version,),) = await tx.fetch(
                PUT_TASK,
                tenant=task.tenant,
                id=plain(task.id),
                spec=spec,
                updated_at=task.updated_at,
            )
            if isinstance(kind := task.spec.get("kind"), str):
                await claim_kinds.call_back(tx, task.tenant, plain(task.id), kind)
            if before is None or before.version != version:
                old = None if before is None else before.spec
                record(tx, "task", task.id, before=old, after=task.spec, size=len(spec))
            return msgspec.structs.replace(task, version=version)

        return await self._db.write(work)

    async def task(self, tenant: str, task_id: str) -> RegisteredTask | None:
        async def work(tx: Tx) -> RegisteredTask | None:
            return next(map(_task, await tx.fetch(TASK, tenant=tenant, id=plain(task_id))), None)

        return await self._db.read(work)

    async def list_tasks(self, tenant: str, cursor: str | None, limit: int) -> Page[RegisteredTask]:
        async def work(tx: Tx) -> Page[RegisteredTask]:
            rows = await tx.fetch(LIST_TASKS, tenant=tenant, after=plain(cursor or ""), limit=limit + 1)
            ids = ids_that_fit(rows, limit)
            tasks = [_task(row) for row in await tx.fetch(TASKS_BY_ID, tenant=tenant, b=ids)] if ids else []
            return Page(tasks, ids[-1] if len(rows) > len(ids) > 0 else None)

        return await self._db.read(work, slow=True)

    async def delete_task(self, tenant: str, task_id: str) -> bool:
        async def work(tx: Tx) -> bool:
            before = await _locked(tx, tenant, task_id)
            if (user := scalar(await tx.fetch(TASK_USERS, tenant=tenant, id=plain(task_id)))) is not None:
                raise Conflict(f"task {task_id!r} is used by job {user}; cancel that job first, or change its task")
            deleted = bool(await tx.fetch(DELETE_TASK, tenant=tenant, id=plain(task_id)))
            if deleted:
                record(tx, "task", task_id, before=None if before is None else before.spec)
            return deleted

        return await self._db.write(work)


async def _locked(tx: Tx, tenant: str, task_id: str, *, read: bool = False) -> RegisteredTask | None:
    """Lock a task. Return it if `read`, or if the audit log needs its values; otherwise, or if it does not exist,
    None."""
    rows = await tx.fetch(LOCK_TASK, tenant=tenant, id=plain(task_id))
    if not rows or (tx.audited is None and not read):
        return None
    return next(map(_task, await tx.fetch(TASK, tenant=tenant, id=plain(task_id))), None)


def _task(row: Row) -> RegisteredTask:
    task_id, tenant, spec, version, updated_at = row
    return RegisteredTask(
        id=task_id, tenant=tenant, spec=msgspec.json.decode(spec), version=version, updated_at=updated_at
    )
