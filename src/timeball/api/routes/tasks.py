"""Routes of registered tasks, which jobs refer to by `taskId`."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.query import PageQuery
from timeball.api.routes.jobs.jobs import if_match
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.task.task import Task
from timeball.jobspec import json_input
from timeball.operation.registry.delete_task import delete_task
from timeball.operation.registry.put_task import put_task
from timeball.ports.store.registry import RegisteredTask

_TASK_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,199}", re.ASCII)
_EXAMPLE: Final = {"kind": "http", "url": "https://example.org/send", "method": "POST"}
_typed = msgspec.json.Decoder(Task)


class RegisteredTaskView(Struct, frozen=True, rename="camel"):
    task_id: str
    task: Task
    version: int
    updated_at: str


class TaskList(Struct, frozen=True, rename="camel"):
    items: list[RegisteredTaskView]
    next_cursor: str | None


async def list_tasks(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_tasks(call.tenant, query.cursor or None, query.limit)
    shown = rows(page.items, _view, "taskId", lambda task: task.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    task_id = _known_form(call)
    found = await call.context.store.task(call.tenant, task_id)
    if found is None:
        raise NotFound("task", task_id)
    return _answer(found)


async def put(call: Call) -> Answer:
    task_id = call.path["taskId"]
    if not _TASK_ID.fullmatch(task_id):
        raise Invalid("a taskId has 1 to 200 letters, digits and . _ : @ -", "/path/taskId")
    task = await json_input.read(call.raw, _typed, call.context.clock)
    saved = await put_task(call.context, call.tenant, task_id, task, if_match=if_match(call))
    return _answer(saved, 201 if saved.version == 1 else 200)


async def delete(call: Call) -> Answer:
    await delete_task(call.context, call.tenant, _known_form(call))
    return Answer(status=204)


def _known_form(call: Call) -> str:
    task_id = call.path["taskId"]
    if not _TASK_ID.fullmatch(task_id):
        raise NotFound("task", task_id[:100])
    return task_id


def _answer(task: RegisteredTask, status: int = 200) -> Answer:
    return answer_json(_view(task), status, [(b"etag", b'"%d"' % task.version)])


def _view(task: RegisteredTask) -> dict[str, Any]:
    return {"taskId": task.id, "task": task.spec, "version": task.version, "updatedAt": render(task.updated_at)}


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/tasks",
        permission=Permission.READ,
        summary="List registered tasks",
        handle=list_tasks,
        query=PageQuery,
        answer=TaskList,
    ),
    Route(
        method="GET",
        path="/v1/tasks/{taskId}",
        permission=Permission.READ,
        summary="Read a registered task",
        handle=read,
        answer=RegisteredTaskView,
        problems=(404,),
    ),
    Route(
        method="PUT",
        path="/v1/tasks/{taskId}",
        permission=Permission.EDIT,
        summary="Register or replace a task",
        audit="task.put",
        description="201 if it is new. Jobs that refer to it use the new version from their next run on.",
        handle=put,
        body=Task,
        headers={"If-Match": "The version (`ETag`) that the change is based on; 412 if it is not current."},
        problems=(412,),
        reads_raw=True,
        answer=RegisteredTaskView,
        example=_EXAMPLE,
    ),
    Route(
        method="DELETE",
        path="/v1/tasks/{taskId}",
        permission=Permission.EDIT,
        summary="Remove a registered task",
        audit="task.delete",
        description="Refused while a job that is not cancelled refers to it. References in the tasks of workflows are "
        "not checked: such a task then fails, and its error names the missing task.",
        handle=delete,
        status=204,
        problems=(404, 409),
    ),
)
