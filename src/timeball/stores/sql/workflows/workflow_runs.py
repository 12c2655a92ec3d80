"""Workflow runs: begin, advance, stop and end them.

No worker claims a workflow run: it begins with rows for its tasks, and is RUNNING under the session `weaver` until the
last task has ended. `WorkflowAdvance` creates the run of each task once: the row of the task names its run from the
same transaction on. All of this happens under the lock on the job, which a transaction that ends the run of a task
holds, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from timeball.batch_isolation import in_halves
from timeball.domain.errors import TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import decode_spec
from timeball.domain.planning.planning_failure import put_off_until
from timeball.domain.run.error_fingerprint import fingerprint
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import Status
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import TaskState
from timeball.ports.store.workflows import NONE, AdvanceResult, TaskOfRun, WorkflowRun
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.names import WEAVER, FlowState
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.runs import ended
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import failure_json
from timeball.stores.sql.runs import follows, ordering_keys, runs, settling
from timeball.stores.sql.runs.claiming import CLAIM, PUT_OFF_RUNS
from timeball.stores.sql.runs.ordering_keys import EndedRun
from timeball.stores.sql.runs.runs import LIVE_TASK_RUNS, NOTE_STARTS, lock_runs
from timeball.stores.sql.schema.runs import NewHistoryRow, RunRow
from timeball.stores.sql.schema.workflows import (
    WorkflowRunRow,
    WorkflowTaskRow,
)
from timeball.stores.sql.statements import many, query
from timeball.stores.sql.workflows.advance import WorkflowAdvance
from timeball.stores.sql.workflows.layout import lay_out
from timeball.stores.sql.workflows.rows import Flow, write_flows

FLOWS_TO_BEGIN = query("flows_to_begin")
FLOWS_TO_STOP = query("flows_to_stop")
FLOWS_TO_ADVANCE = query("flows_to_advance")
NEXT_FLOW_AT = query("next_flow_at")
SPECS_OF_FLOWS = query("specs_of_flows")
LIVE_FLOWS = query("live_flows")
FRESH_TASKS = many(query("fresh_tasks"))
DEFINITIONS_OF_FLOW = many(query("definitions_of_flow"))
DROP_WAITING_TASKS = query("drop_waiting_tasks")
LOOK_AT_NOTHING = query("look_at_nothing")
FLOW_BY_ID = query("flow_by_id")
TASKS_OF_FLOW = many(query("tasks_of_flow"))
INSTANCES_OF_FLOW = many(query("instances_of_flow"))
FLOWS_OF_TASKS = query("flows_of_tasks")

MAX_BEGUN: Final = 20
MAX_SHOWN: Final = 10_000
"""Maximum number of instances that are shown of one workflow run."""
_log = structlog.get_logger()
CANCELLED: Final = "the workflow run was cancelled"

_decode_task = msgspec.json.Decoder(WorkflowTask).decode


class WorkflowRuns(StorePart):
    async def advance_workflows(
        self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = ""
    ) -> AdvanceResult:
        async def find(tx: Tx) -> tuple[list[Row], list[Row], list[Row]]:
            return (
                await tx.fetch(FLOWS_TO_BEGIN, limit=MAX_BEGUN),
                await tx.fetch(FLOWS_TO_STOP, limit=MAX_BEGUN),
                await tx.fetch(FLOWS_TO_ADVANCE, limit=limit, after=after),
            )

        begin, stop, advance = await self._db.read(find)
        done = AdvanceResult()
        if begin:
            done = done.and_(await self._begin([run_id for run_id, _ in begin]))
        if stop:
            done = done.and_(await self._db.write(partial(_stop, dict(map(tuple, stop)))))
        if going := dict(map(tuple, [*begin, *advance])):
            done = done.and_(await self._advance(going, limit, large))
            done = replace(done, last=max((flow_id for flow_id, _ in advance), default=""))
        return done

    async def _begin(self, run_ids: Sequence[str]) -> AdvanceResult:
        """Begin workflow runs in one transaction; if that fails, in several smaller ones. A workflow run that cannot
        begin is postponed, so that the others begin."""
        done = AdvanceResult()
        broken: list[str] = []

        async def begin(some: Sequence[str]) -> None:
            nonlocal done
            done = done.and_(await self._db.write(partial(_begin, some)))

        def failed(run_id: str, error: Exception) -> None:
            unread(run_id, error)
            broken.append(run_id)

        async def put_off(tx: Tx) -> None:
            found, now = await lock_runs(tx, broken)
            await tx.execute(PUT_OFF_RUNS, b=[(run.id, put_off_until(run.fire_time, now)) for run in found])

        await in_halves(run_ids, begin, failed)
        if broken:
            await self._db.write(put_off)
        return done

    async def _advance(self, flows: Mapping[str, str], limit: int, large: Mapping[str, bytes | None]) -> AdvanceResult:
        """Advance workflow runs in one transaction. If an unexpected error ends that transaction, advance each run in a
        transaction of its own: a broken run is logged, and does not stop the others. A `TimeballError` is raised."""
        try:
            return await self._db.write(partial(_advance, flows, limit, large))
        except TimeballError:
            raise
        except Exception:
            if len(flows) == 1:
                _log.exception("a workflow run cannot be advanced; all others are advanced", run=next(iter(flows)))
                return AdvanceResult()
        done = AdvanceResult()
        for each in flows.items():
            done = done.and_(await self._advance(dict([each]), limit, large))
        return done

    async def next_workflow_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            if await tx.fetch(FLOWS_TO_ADVANCE, limit=1, after="") or await tx.fetch(FLOWS_TO_STOP, limit=1):
                return 0
            at: Micros | None = scalar(await tx.fetch(NEXT_FLOW_AT))
            return at

        return await self._db.read(work)

    async def workflow_run(self, run_id: str) -> WorkflowRun | None:
        async def work(tx: Tx) -> WorkflowRun | None:
            flow = next(starmap(WorkflowRunRow, await tx.fetch(FLOW_BY_ID, id=run_id)), None)
            if flow is None:
                return None
            definitions: dict[int, str] = dict(map(tuple, await tx.fetch(DEFINITIONS_OF_FLOW, id=run_id)))
            tasks = starmap(WorkflowTaskRow, await tx.fetch(TASKS_OF_FLOW, id=run_id))
            shown_tasks = tuple(_shown(task, definitions) for task in tasks)
            instances = starmap(WorkflowTaskRow, await tx.fetch(INSTANCES_OF_FLOW, id=run_id, limit=MAX_SHOWN))
            shown = tuple(_shown(instance, {}) for instance in instances)
            return WorkflowRun(flow.id, flow.job_id, flow.tenant, shown_tasks, shown)

        return await self._db.read(work, slow=True)

    async def workflow_runs_of(self, run_ids: Sequence[str]) -> dict[str, str]:
        async def work(tx: Tx) -> dict[str, str]:
            rows = await tx.fetch(FLOWS_OF_TASKS, b=list(run_ids))
            return dict(sorted(map(tuple, rows), reverse=True))

        return await self._db.read(work) if run_ids else {}


def _shown(row: WorkflowTaskRow, definitions: Mapping[int, str]) -> TaskOfRun:
    return TaskOfRun(
        name=row.name,
        index=None if row.idx < 0 else row.idx,
        state=TaskState(row.state),
        reason=row.reason,
        run_id=row.run_id,
        waits=row.waits,
        instances=row.instances,
        open=row.open,
        definition=_decode_task(definitions[row.place]) if row.place in definitions else None,
    )


# --- beginning ----------------------------------------------------------------------------------------------------


async def _begin(run_ids: Sequence[str], tx: Tx) -> AdvanceResult:
    """Start workflow runs that are due."""
    found, now = await lock_runs(tx, run_ids)
    ready = [
        run
        for run in found
        if run.state == State.READY
        and run.eligible_at <= now
        and (run.start_by is None or run.start_by >= now or run.attempt > 0)
    ]
    if not ready:
        return AdvanceResult()
    tokens = await tx.tokens(len(ready))
    await tx.execute(
        CLAIM, b=[(run.id, token, WEAVER, WEAVER, 0) for run, token in zip(ready, tokens, strict=True)], at=now
    )
    await tx.execute(NOTE_STARTS, b=[(run.id, now) for run in ready])
    specs = {run_id: (spec, state) for run_id, spec, state in await tx.fetch(SPECS_OF_FLOWS, b=[r.id for r in ready])}
    over: dict[str, Flow] = {}
    for run in ready:
        spec, state = specs[run.id]
        if state is None:  # else the run began before and was released
            flow = await lay_out(tx, run, spec)
            if flow.open == 0:
                over[run.id] = flow
    if over:
        found, now = await lock_runs(tx, sorted(over))
        await _conclude(tx, [(run, over[run.id]) for run in found], now)
    return AdvanceResult(begun=len(ready), ended=len(over))


# --- stopping -----------------------------------------------------------------------------------------------------


async def _stop(flows: Mapping[str, str], tx: Tx) -> AdvanceResult:
    """Stop workflow runs that were cancelled: no more tasks start, and their live runs are cancelled."""
    await settling.lock_jobs(tx, sorted(set(flows.values())))
    found = [Flow(*row) for row in await tx.fetch(LIVE_FLOWS, b=sorted(flows))]
    stopping = [flow for flow in found if flow.state == FlowState.LIVE and flow.cancel_requested_at is not None]
    if not stopping:
        return AdvanceResult()
    named = [flow.id for flow in stopping]
    await tx.execute(DROP_WAITING_TASKS, b=named, reason=CANCELLED)
    await tx.execute(LOOK_AT_NOTHING, b=named)
    live = {run_id: flow_id for flow_id, run_id in await tx.fetch(LIVE_TASK_RUNS, b=named)}
    alive = Counter(live.values())
    for flow in stopping:
        flow.state, flow.open = FlowState.STOPPING.value, alive[flow.id]
    await write_flows(tx, stopping)
    found_runs, now = await lock_runs(tx, sorted(live))
    at_once = {flow.id for flow in stopping if flow.kill}
    for kill in (False, True):
        if mine := [run for run in found_runs if (live[run.id] in at_once) is kill]:
            await runs.cancel(tx, mine, now, reason=CANCELLED, kill=kill)
    return await _end(tx, [flow for flow in stopping if flow.open == 0], AdvanceResult(stopped=len(stopping)))


# --- advancing ----------------------------------------------------------------------------------------------------


async def _advance(flows: Mapping[str, str], limit: int, large: Mapping[str, bytes | None], tx: Tx) -> AdvanceResult:
    """Update the tasks that need ended ones, and create the runs of tasks that may start."""
    await settling.lock_jobs(tx, sorted(set(flows.values())))
    found = [Flow(*row) for row in await tx.fetch(LIVE_FLOWS, b=sorted(flows))]
    # A cancelled workflow run creates no more runs: `_stop` handles it first.
    going = {flow.id: flow for flow in found if flow.cancel_requested_at is None or flow.state == FlowState.STOPPING}
    if not going:
        return AdvanceResult()
    runs = WorkflowAdvance(tx, going, large)
    await runs.load(await tx.fetch(FRESH_TASKS, b=list(going), limit=limit))
    await runs.join()
    await runs.tell()
    await runs.make(limit)
    await runs.persist()
    over = [flow for flow in going.values() if flow.open == 0]
    return await _end(tx, over, AdvanceResult(made=len(runs.made), moved=runs.moved, wants=tuple(sorted(runs.wants))))


# --- ending -------------------------------------------------------------------------------------------------------


async def _end(tx: Tx, over: Sequence[Flow], done: AdvanceResult) -> AdvanceResult:
    """End workflow runs all of whose tasks have ended."""
    if not over:
        return done
    flows = {flow.id: flow for flow in over}
    found, now = await lock_runs(tx, sorted(flows))
    await _conclude(tx, [(run, flows[run.id]) for run in found], now)
    return done.and_(AdvanceResult(ended=len(over)))


async def _conclude(tx: Tx, over: Sequence[tuple[RunRow, Flow]], now: Micros) -> None:
    """Move these workflow runs to the history: all their tasks have ended. A run that was cancelled ends as cancelled,
    whatever the outcome of its tasks. The caller has locked the rows."""
    history: list[NewHistoryRow] = []
    gone: list[EndedRun] = []
    for run, flow in over:
        status = Status.CANCELLED if run.cancel_requested_at is not None else flow.outcome
        failure = flow.failure() if status is Status.FAILED else None
        history.append(
            ended(
                run,
                status,
                now,
                failure=failure_json(failure),
                fingerprint=None if failure is None else fingerprint(failure),
                result=flow.result() if status is Status.SUCCEEDED else None,
            )
        )
        if run.ordering_key is not None:
            blocks = status is Status.FAILED and decode_spec(flow.spec).on_failure == "block"
            gone.append(EndedRun((run.tenant, run.ordering_key), run.id, keeps_key=blocks))
        flow.state = FlowState.ENDED.value
    await follows.record_upstream_ends(tx, history)
    await settling.finish(tx, history)
    await settling.release(tx, sorted({run.job_id for run, _ in over}))
    await ordering_keys.release(tx, gone)
    await tx.execute(LOOK_AT_NOTHING, b=[flow.id for _, flow in over])
    await write_flows(tx, [flow for _, flow in over])
