"""Workflow runs: how they begin, go on, stop and end.

A workflow run is a run that no worker claims: it begins with rows for its tasks, and is RUNNING for the weaver until
the last of them has ended. Their runs are made by `WorkflowAdvance`, once each: a row gets its run in the transaction
that makes it. Everything happens under the lock on the job, which whoever ends a task's run has taken, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from timeball.batch_isolation import in_halves
from timeball.domain.errors import TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec, OffloadedSpec, decode_spec, encode_spec, offloaded
from timeball.domain.planning.planning_failure import put_off_until
from timeball.domain.run.error_fingerprint import fingerprint
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import Status
from timeball.domain.workflow import progress
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.domain.workflow.progress import Step, TaskState
from timeball.ports.store.workflows import NONE, AdvanceResult, TaskOfRun, WorkflowRun
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.names import WEAVER, FlowState
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows import as_json, computed, ended, failure_json, unread
from timeball.stores.sql.runs import follows, ordering_keys, runs, settling
from timeball.stores.sql.runs.claiming import CLAIM, PUT_OFF_RUNS
from timeball.stores.sql.runs.ordering_keys import Gone
from timeball.stores.sql.runs.runs import LIVE_TASK_RUNS, NOTE_STARTS, lock_runs
from timeball.stores.sql.schema import (
    WORKFLOW_NODES,
    WORKFLOW_RUNS,
    WORKFLOW_TASKS,
    NewHistoryRow,
    RunRow,
    WorkflowRunRow,
    WorkflowTaskRow,
)
from timeball.stores.sql.statements import many, query
from timeball.stores.sql.workflows.advance import WorkflowAdvance
from timeball.stores.sql.workflows.rows import Flow, flow_row, new_row, step_of, write_flows

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
"""Instances that are told of one workflow run."""
_log = structlog.get_logger()
CANCELLED: Final = "the workflow run was cancelled"

_decode_task = msgspec.json.Decoder(WorkflowTask).decode


class WorkflowRuns(StorePart):
    async def advance_workflows(
        self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = ""
    ) -> AdvanceResult:
        async def find(tx: Tx) -> tuple[list[Row], list[Row], list[Row]]:
            return (
                await tx.fetch(FLOWS_TO_BEGIN, most=MAX_BEGUN),
                await tx.fetch(FLOWS_TO_STOP, most=MAX_BEGUN),
                await tx.fetch(FLOWS_TO_ADVANCE, most=limit, after=after),
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
        """All at once; one that cannot begin is put off, so that it keeps no other from it."""
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
        """All at once; if that cannot be, one by one, so that one which cannot go on does not keep others from it."""
        try:
            return await self._db.write(partial(_advance, flows, limit, large))
        except TimeballError:
            raise
        except Exception:
            if len(flows) == 1:
                _log.exception("a workflow run cannot go on; the others do", run=next(iter(flows)))
                return AdvanceResult()
        done = AdvanceResult()
        for each in flows.items():
            done = done.and_(await self._advance(dict([each]), limit, large))
        return done

    async def next_workflow_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            if await tx.fetch(FLOWS_TO_ADVANCE, most=1, after="") or await tx.fetch(FLOWS_TO_STOP, most=1):
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
            instances = starmap(WorkflowTaskRow, await tx.fetch(INSTANCES_OF_FLOW, id=run_id, most=MAX_SHOWN))
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
    """Let workflow runs start whose time has come."""
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
        if state is None:  # else it began before, and somebody took it from the weaver
            flow = await _lay_out(tx, run, spec)
            if flow.open == 0:
                over[run.id] = flow
    if over:
        found, now = await lock_runs(tx, sorted(over))
        await _conclude(tx, [(run, over[run.id]) for run in found], now)
    return AdvanceResult(begun=len(ready), ended=len(over))


async def _lay_out(tx: Tx, run: RunRow, spec_json: str) -> Flow:
    """Write down the tasks of a run that begins. One that repeats another keeps what went well there."""
    flow = Flow(run.id, run.job_id, run.tenant, run.version, FlowState.LIVE.value, 0, 0, 0, 0, "", "")
    try:
        spec = await computed(tx, len(spec_json), partial(decode_spec, spec_json))
    except msgspec.MsgspecError as error:
        unread(run.job_id, error)
        flow.failed, flow.because, flow.spec = 1, "what it executes cannot be read", encode_spec(_NO_SPEC).decode()
        return flow
    assert isinstance(spec.task, Workflow)
    tasks = spec.task.tasks
    before = await _before(tx, run, tasks)
    kept = progress.kept(tasks, before.tasks)
    rows, nodes = await computed(tx, len(spec_json), partial(_laid_out, run.id, tasks, kept, before))
    flow.tasks, flow.open = len(tasks), len(tasks) - len(kept)
    flow.skipped = sum(step.state is TaskState.SKIPPED for step in kept.values())
    flow.spec = encode_spec(_shared(spec)).decode()
    await tx.insert(WORKFLOW_RUNS, [flow_row(flow)])
    await tx.insert(WORKFLOW_TASKS, rows)
    await tx.insert(WORKFLOW_NODES, nodes)
    return flow


def _laid_out(
    run_id: str, tasks: Sequence[WorkflowTask], kept: Mapping[int, Step], before: _Before
) -> tuple[list[Row], list[Row]]:
    """The rows of the tasks of a run, and those of what never changes of them."""
    rows: list[Row] = []
    for step in progress.begin(tasks, kept):
        old = before.tasks.get(step.place)
        if step.place in kept:
            rows += [new_row(run_id, each) for each in before.instances.get(step.place, ())]
        elif old is not None and old.instances and step.fresh:
            rows += _again(run_id, step, before.instances.get(step.place, ()))
        rows.append(new_row(run_id, step))
    nodes = [
        (run_id, place, as_json(node.task), as_json(node.children), as_json(node.sources))
        for place, node in enumerate(progress.graph(tasks))
    ]
    return rows, nodes


class _Before(Struct):
    """What a run repeats."""

    tasks: dict[int, Step] = {}
    instances: dict[int, list[Step]] = {}


async def _before(tx: Tx, run: RunRow, tasks: Sequence[WorkflowTask]) -> _Before:
    if run.origin != Origin.RETRY or run.retry_of is None:
        return _Before()
    before = _Before()
    for row in await tx.fetch(TASKS_OF_FLOW, id=run.retry_of):
        step = step_of(WorkflowTaskRow(*row))
        before.tasks[step.place] = step
    if [step.name for step in before.tasks.values()] != [task.name for task in tasks]:
        return _Before()  # somebody edited what it executes
    for row in await tx.fetch(INSTANCES_OF_FLOW, id=run.retry_of, most=1 << 40):
        step = step_of(WorkflowTaskRow(*row))
        before.instances.setdefault(step.place, []).append(step)
    return before


def _again(flow_id: str, task: Step, instances: Sequence[Step]) -> list[Row]:
    """Of a task that ran for many items, only what did not succeed runs again."""
    for each in instances:
        if each.state is not TaskState.SUCCEEDED:
            each.state, each.fresh, each.run_id, each.reason = TaskState.WAITING, True, None, ""
    task.instances = len(instances)
    task.open = sum(each.fresh for each in instances)
    task.state, task.fresh = TaskState.RUNNING, False
    if task.open == 0:  # it failed for another reason than its instances
        task.end(TaskState.SUCCEEDED)
    return [new_row(flow_id, each) for each in instances]


def _shared(spec: JobSpec) -> JobSpec:
    """What the tasks of a workflow have in common, without themselves."""
    common = JobSpec(
        name=spec.name,
        task_id=WEAVER,
        parameters=spec.parameters,
        priority=spec.priority,
        ordering_key=spec.ordering_key,
        on_failure=spec.on_failure,
        preemptible=spec.preemptible,
        tags=spec.tags,
        user_id=spec.user_id,
    )
    return offloaded(common, spec.parameters_at) if isinstance(spec, OffloadedSpec) else common


_NO_SPEC: Final = JobSpec(task_id=WEAVER)


# --- stopping -----------------------------------------------------------------------------------------------------


async def _stop(flows: Mapping[str, str], tx: Tx) -> AdvanceResult:
    """Make no more runs for workflow runs that somebody cancelled, and cancel those that they have."""
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


# --- going on -----------------------------------------------------------------------------------------------------


async def _advance(flows: Mapping[str, str], limit: int, large: Mapping[str, bytes | None], tx: Tx) -> AdvanceResult:
    """Tell those who need tasks that have ended, and make the runs of those that may begin."""
    await settling.lock_jobs(tx, sorted(set(flows.values())))
    found = [Flow(*row) for row in await tx.fetch(LIVE_FLOWS, b=sorted(flows))]
    # What somebody cancelled makes no run any more; it is stopped first.
    going = {flow.id: flow for flow in found if flow.cancel_requested_at is None or flow.state == FlowState.STOPPING}
    if not going:
        return AdvanceResult()
    loom = WorkflowAdvance(tx, going, large)
    await loom.load(await tx.fetch(FRESH_TASKS, b=list(going), most=limit))
    await loom.join()
    await loom.tell()
    await loom.make(limit)
    await loom.persist()
    over = [flow for flow in going.values() if flow.open == 0]
    return await _end(tx, over, AdvanceResult(made=len(loom.made), moved=loom.moved, wants=tuple(sorted(loom.wants))))


# --- ending -------------------------------------------------------------------------------------------------------


async def _end(tx: Tx, over: Sequence[Flow], done: AdvanceResult) -> AdvanceResult:
    """End workflow runs all of whose tasks have."""
    if not over:
        return done
    flows = {flow.id: flow for flow in over}
    found, now = await lock_runs(tx, sorted(flows))
    await _conclude(tx, [(run, flows[run.id]) for run in found], now)
    return done.and_(AdvanceResult(ended=len(over)))


async def _conclude(tx: Tx, over: Sequence[tuple[RunRow, Flow]], now: Micros) -> None:
    """Move workflow runs, whose rows are locked, to the history; a cancel wins."""
    history: list[NewHistoryRow] = []
    gone: list[Gone] = []
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
            gone.append(Gone((run.tenant, run.ordering_key), run.id, stays=blocks))
        flow.state = FlowState.ENDED.value
    await follows.record_upstream_ends(tx, history)
    await settling.finish(tx, history)
    await settling.release(tx, sorted({run.job_id for run, _ in over}))
    await ordering_keys.release(tx, gone)
    await tx.execute(LOOK_AT_NOTHING, b=[flow.id for _, flow in over])
    await write_flows(tx, [flow for _, flow in over])
