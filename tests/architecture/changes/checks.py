"""Uses what a patch added, in a process that imports the patched copy: `python -m tests.architecture.changes.checks`.

Names that only the patched source has are looked up by their text.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pkgutil
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import msgspec

import timeball
from tests.support.builders import LEASE, TENANT, one_shot, settlement, worker
from tests.support.migrated import sqlite_store
from tests.unit.executing import RecordedAttempt
from timeball import system, tasks
from timeball.api.app import ROUTES
from timeball.api.documentation import openapi
from timeball.bootstrap.worker import executors
from timeball.cli.jobs.jobs import create
from timeball.cli.options.job_options import task_body
from timeball.cli.output.output import _COLOURS
from timeball.client.models.runs import Run
from timeball.config import readers
from timeball.domain.dispatch.placement import kind_label
from timeball.domain.errors import Invalid
from timeball.domain.run import follow
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.lifecycle import TRANSITIONS, Failed, Failure, Outcome, State, Succeeded
from timeball.domain.run.status import LIVE, TERMINAL, WORDS, Status
from timeball.domain.task.kinds import KINDS
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Task
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.jobspec.job_reader import read_job
from timeball.operation.context import OperationContext
from timeball.operation.runs.cancel import cancel_run
from timeball.operation.runs.discard import discard
from timeball.operation.runs.explain import explain_run
from timeball.operation.runs.retry_run import RETRYABLE, retry_run
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sql.runs.workers import _labels


def task_kind() -> None:
    assert "sleep" in KINDS
    assert tuple(struct.__struct_config__.tag for struct in get_args(Task)) == KINDS

    body = read_job(b'{"task": {"kind": "sleep", "length": "1ms"}}')
    assert body.spec.task is not None
    _refused(b'{"task": {"kind": "sleep", "length": "0s"}}', "/task/length", "")
    _refused(b'{"task": {"kind": "slep"}}', "/task/kind", "python, sleep, workflow; did you mean 'sleep'?")
    assert read_job(b'{"payload": {"length": "1ms"}}').spec.task == body.spec.task
    assert "Sleep" in _components()

    assert readers.kinds("sleep,http") == ("http", "sleep")
    assert _labels(worker(kinds=["sleep"])) == [kind_label("sleep")]
    flags: dict[str, Any] = {option.name: None for option in create.params if option.name is not None}
    flags |= {"headers": (), "env": (), "sleep": "1ms"}
    assert task_body(flags) == {"kind": "sleep", "length": "1ms"}

    async def execute() -> Outcome:
        async with contextlib.AsyncExitStack() as stack:
            processes = Processes(ProcessGuard())
            python = PythonExecutor(tasks.REGISTRY, slots=1, process_mode=PythonProcesses(processes, max_children=4))
            stack.callback(python.close)
            by_kind = {each.kind: each for each in executors(Path(), processes, python, stack)}
            assert tuple(by_kind) == KINDS
            task = body.spec.task
            assert isinstance(task, Task)
            return await by_kind["sleep"].execute(RecordedAttempt(task))

    assert isinstance(asyncio.run(execute()), Succeeded)


def terminal_status() -> None:
    timed_out = Status("timed_out")
    assert timed_out in TERMINAL
    assert timed_out in RETRYABLE
    assert timed_out in WORDS["failure"]
    assert follow.wants("failed", timed_out)
    _shown(timed_out)
    assert Run(run_id="r", status="timed_out").done
    asyncio.run(_terminal_status(timed_out))


async def _terminal_status(timed_out: Status) -> None:
    async with _store() as (store, context):
        claim = await _claimed(store, retry=Retry(max_retries=0), ordering_key="k")
        (settled,) = await store.settle([settlement(claim, _TIMEOUT, at=store.now())])
        assert settled is not None
        assert settled.status is timed_out
        run = (await store.runs([claim.run_id]))[claim.run_id]
        assert (run.status, run.verdict, run.is_terminal) == (timed_out, Verdict.ON_TIME, True)
        assert await _listed(store, timed_out) == [claim.run_id]
        assert await _listed(store, Status.FAILED) == []
        explained = await explain_run(context, TENANT, claim.run_id)
        assert explained.reasons[0].code.value == "timed_out"
        assert "Its timeout ended each attempt" in explained.reasons[0].text

        # It gave up: the run behind it under its key waits until a person deals with it.
        behind = one_shot(store.now(), ordering_key="k")
        await store.submit([behind])
        assert (await store.runs([behind.runs[0].id]))[behind.runs[0].id].status is Status.BLOCKED
        (fate,) = await discard(
            context, await store.match_runs(RunFilter(tenant=TENANT, status=WORDS["error"]), None, 9)
        )
        assert fate.error is None
        assert (await _claim(store)).run_id == behind.runs[0].id

        again = await _claimed(store, retry=Retry(max_retries=0))
        await store.settle([settlement(again, _TIMEOUT, at=store.now())])
        assert (await retry_run(context, TENANT, again.run_id)).retry_of == again.run_id


def live_state() -> None:
    shelved = Status("shelved")
    assert shelved in LIVE
    assert shelved in WORDS["pending"]
    assert {state for state, _ in TRANSITIONS} == set(State)
    _shown(shelved)
    assert not Run(run_id="r", status="shelved").done
    asyncio.run(_live_state(shelved))


async def _live_state(shelved: Status) -> None:
    async with _store() as (store, context):
        first, second = one_shot(store.now()), one_shot(store.now())
        await store.submit([first, second])
        ids = [sent.runs[0].id for sent in (first, second)]
        shelve: Any = getattr(store, "shelve")  # noqa: B009 - only the patched store has it
        assert sorted(await shelve(ids)) == sorted(ids)
        assert {run.status for run in (await store.runs(ids)).values()} == {shelved}
        assert sorted(await _listed(store, shelved)) == sorted(ids)
        assert sorted(await _listed(store, shelved, job_id=first.job.id)) == [ids[0]]
        assert await _listed(store, Status.QUEUED) == []
        assert not (await store.claim([SlotRequest("w_1", "", 9)], 0)).claims
        explained = await explain_run(context, TENANT, ids[0])
        assert [reason.text for reason in explained.reasons] == ["A person shelved it."]

        assert (await cancel_run(context, TENANT, ids[0])).status is Status.CANCELLED
        assert await shelve(ids, back=True) == [ids[1]]
        assert (await _claim(store)).run_id == ids[1]


_TIMEOUT = Failed(Failure(kind="timeout", message="it took longer than 1s"))


def _refused(document: bytes, pointer: str, words: str) -> None:
    try:
        read_job(document)
    except Invalid as error:
        (problem,) = error.problems
        assert problem.pointer == pointer, problem
        assert words in problem.detail, problem
    else:
        raise AssertionError(f"{document!r} was accepted")


def _components() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(openapi.document(ROUTES, "1"))["components"]["schemas"]
    return found


def _shown(status: Status) -> None:
    """In the OpenAPI document, in a filter and on the command line."""
    assert status.value in _components()["Status"]["enum"]
    assert WORDS[status.value] == {status}
    assert status.value in _COLOURS


@contextlib.asynccontextmanager
async def _store() -> AsyncIterator[tuple[Store, OperationContext]]:
    with tempfile.TemporaryDirectory() as folder:
        store = sqlite_store(Path(folder) / "timeball.db")
        await store.open()
        try:
            await store.register(worker("w_1"), LEASE)
            yield store, OperationContext(store, system.SystemClock(), random.Random(1), LocalWakeups(lambda _: None))
        finally:
            await store.close()


async def _claimed(store: Store, **fields: Any) -> Claim:
    await store.submit([one_shot(store.now(), **fields)])
    return await _claim(store)


async def _claim(store: Store) -> Claim:
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    return claim


async def _listed(store: Store, status: Status, **more: Any) -> list[str]:
    where = RunFilter(tenant=TENANT, status=frozenset({status}), **more)
    return [run.id for run in (await store.list_runs(where, None, 10)).items]


def _import_everything() -> None:
    for module in pkgutil.walk_packages(timeball.__path__, "timeball."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    folder, change = sys.argv[1:]
    del sys.argv[1:]  # what is imported below may be a program that reads its own
    assert Path(timeball.__file__).is_relative_to(folder), timeball.__file__
    _import_everything()
    {"task kind": task_kind, "terminal status": terminal_status, "live state": live_state}[change]()
