"""Workflow runs: how they begin, go on, stop and end.

A workflow run is a run that no worker claims: it begins with rows for its tasks, and is RUNNING for the weaver until
the last of them has ended. Their runs are made here, once each: a row gets its run in the transaction that makes it.

Everything happens under the lock on the job, which whoever ends a task's run has taken, too. What is to be looked at
is *fresh*: a task that may run, or one that has ended and of which nobody has told those that need it. So a step costs
what it concerns, however large the workflow is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from timeball.domain import ids, workflow
from timeball.domain.english import counted
from timeball.domain.errors import TimeballError
from timeball.domain.fingerprint import fingerprint
from timeball.domain.instant import Micros
from timeball.domain.job import Job, JobSpec, JobState, StowedSpec, decode_spec, encode_spec, stowed, task_spec
from timeball.domain.large import reference
from timeball.domain.ledger import Origin
from timeball.domain.lifecycle import Failure, State, Status
from timeball.domain.run import NewRun, new_run
from timeball.domain.workflow import Known, Missing, Node, Step, TaskState, Workflow, WorkflowTask
from timeball.ports.store import NONE, TaskOfRun, WorkflowRun, Woven
from timeball.stores.sql import follows, runs, settling, triggers, turns
from timeball.stores.sql.claiming import CLAIM
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.library import many, query
from timeball.stores.sql.part import Part
from timeball.stores.sql.rows import as_json, ended, failure_json, unread
from timeball.stores.sql.runs import LIVE_TASK_RUNS, NOTE_STARTS, WEAVER, lock_runs
from timeball.stores.sql.tables import (
    WORKFLOW_NODES,
    WORKFLOW_RUNS,
    WORKFLOW_TASKS,
    RunRow,
    WorkflowNodeRow,
    WorkflowRunRow,
    WorkflowTaskRow,
    as_tuple,
)
from timeball.stores.sql.turns import Gone

FLOWS_TO_BEGIN = query("flows_to_begin")
FLOWS_TO_STOP = query("flows_to_stop")
FLOWS_TO_ADVANCE = query("flows_to_advance")
NEXT_FLOW_AT = query("next_flow_at")
NOW = query("now")
SPECS_OF_FLOWS = query("specs_of_flows")
LIVE_FLOWS = query("live_flows")
FRESH_TASKS = many(query("fresh_tasks"))
TASKS_AT = many(query("tasks_at"))
NODES_AT = many(query("nodes_at"))
CHILDREN_AT = query("children_at")
DEFINITIONS_OF_FLOW = many(query("definitions_of_flow"))
RESULTS_AT = many(query("results_at"))
RESULTS_OF_TASKS = many(query("results_of_tasks"))
FAILED_INSTANCES = query("failed_instances")
REASONS_OF_INSTANCES = query("reasons_of_instances")
WRITE_TASKS = query("write_tasks")
WRITE_FLOWS = query("write_flows")
DROP_WAITING_TASKS = query("drop_waiting_tasks")
LOOK_AT_NOTHING = query("look_at_nothing")
FLOW_BY_ID = query("flow_by_id")
TASKS_OF_FLOW = many(query("tasks_of_flow"))
INSTANCES_OF_FLOW = many(query("instances_of_flow"))
FLOWS_OF_TASKS = query("flows_of_tasks")

MOST_BEGUN: Final = 20
MOST_BYTES: Final = 8 << 20
"""Of the specs of runs that one transaction makes."""
MOST_SHOWN: Final = 10_000
"""Instances that are told of one workflow run."""
_log = structlog.get_logger()
CANCELLED: Final = "the workflow run was cancelled"

_decode_task = msgspec.json.Decoder(WorkflowTask).decode
_places = msgspec.json.Decoder(tuple[int, ...]).decode
_sources = msgspec.json.Decoder(dict[str, int]).decode
_Key = tuple[str, int, int]
_Place = tuple[str, int]


class _Flow(Struct):
    """A workflow run, as it is changed."""

    id: str
    job_id: str
    tenant: str
    version: int
    state: str
    tasks: int
    open: int
    failed: int
    skipped: int
    because: str
    spec: str
    cancel_requested_at: Micros | None = None
    kill: int = 0

    def count(self, step: Step) -> None:
        """A task of it has ended, and those who need it know."""
        self.open -= 1
        if step.state in (TaskState.FAILED, TaskState.CANCELLED):
            self.failed += 1
            self.because = self.because or f"task {step.name}: {step.reason or step.state}"
        elif step.state is TaskState.SKIPPED:
            self.skipped += 1

    @property
    def outcome(self) -> Status:
        return Status.FAILED if self.failed else Status.SUCCEEDED

    def failure(self) -> Failure:
        others = f" (and {counted(self.failed - 1, 'other task')})" if self.failed > 1 else ""
        return Failure(kind="tasks", message=f"{self.because}{others}")

    def result(self) -> str:
        succeeded = self.tasks - self.failed - self.skipped
        return as_json({"tasks": self.tasks, "succeeded": succeeded, "failed": self.failed, "skipped": self.skipped})


class Weaving(Part):
    async def weave(self, limit: int, large: Mapping[str, bytes | None] = NONE, after: str = "") -> Woven:
        async def find(tx: Tx) -> tuple[list[Row], list[Row], list[Row]]:
            return (
                await tx.fetch(FLOWS_TO_BEGIN, most=MOST_BEGUN),
                await tx.fetch(FLOWS_TO_STOP, most=MOST_BEGUN),
                await tx.fetch(FLOWS_TO_ADVANCE, most=limit, after=after),
            )

        begin, stop, advance = await self._db.read(find)
        done = Woven()
        if begin:
            done = done.and_(await self._db.write(partial(_begin, [run_id for run_id, _ in begin])))
        if stop:
            done = done.and_(await self._db.write(partial(_stop, dict(map(tuple, stop)))))
        if going := dict(map(tuple, [*begin, *advance])):
            done = done.and_(await self._advance(going, limit, large))
            done = replace(done, last=max((flow_id for flow_id, _ in advance), default=""))
        return done

    async def _advance(self, flows: Mapping[str, str], limit: int, large: Mapping[str, bytes | None]) -> Woven:
        """All at once; if that cannot be, one by one, so that one which cannot go on does not keep others from it."""
        try:
            return await self._db.write(partial(_advance, flows, limit, large))
        except TimeballError:
            raise
        except Exception:
            if len(flows) == 1:
                _log.exception("a workflow run cannot go on; the others do", run=next(iter(flows)))
                return Woven()
        done = Woven()
        for each in flows.items():
            done = done.and_(await self._advance(dict([each]), limit, large))
        return done

    async def next_weaving_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            if await tx.fetch(FLOWS_TO_ADVANCE, most=1, after="") or await tx.fetch(FLOWS_TO_STOP, most=1):
                return 0
            rows = await tx.fetch(NEXT_FLOW_AT)
            return rows[0][0] if rows else None

        return await self._db.read(work)

    async def workflow_run(self, run_id: str) -> WorkflowRun | None:
        async def work(tx: Tx) -> WorkflowRun | None:
            flows = await tx.fetch(FLOW_BY_ID, id=run_id)
            if not flows:
                return None
            flow = WorkflowRunRow(*flows[0])
            definitions: dict[int, str] = dict(map(tuple, await tx.fetch(DEFINITIONS_OF_FLOW, id=run_id)))
            tasks = [_shown(WorkflowTaskRow(*row), definitions) for row in await tx.fetch(TASKS_OF_FLOW, id=run_id)]
            instances = await tx.fetch(INSTANCES_OF_FLOW, id=run_id, most=MOST_SHOWN)
            shown = tuple(_shown(WorkflowTaskRow(*row), {}) for row in instances)
            return WorkflowRun(flow.id, flow.job_id, flow.tenant, tuple(tasks), shown)

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


async def _begin(run_ids: Sequence[str], tx: Tx) -> Woven:
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
        return Woven()
    tokens = await tx.tokens(len(ready))
    await tx.execute(
        CLAIM, b=[(run.id, token, WEAVER, WEAVER, 0) for run, token in zip(ready, tokens, strict=True)], at=now
    )
    await tx.execute(NOTE_STARTS, b=[(run.id, now) for run in ready])
    specs = {run_id: (spec, state) for run_id, spec, state in await tx.fetch(SPECS_OF_FLOWS, b=[r.id for r in ready])}
    over: dict[str, _Flow] = {}
    for run in ready:
        spec, state = specs[run.id]
        if state is None:  # else it began before, and somebody took it from the weaver
            flow = await _lay_out(tx, run, spec)
            if flow.open == 0:
                over[run.id] = flow
    if over:
        found, now = await lock_runs(tx, sorted(over))
        await _conclude(tx, [(run, over[run.id]) for run in found], now)
    return Woven(begun=len(ready), ended=len(over))


async def _lay_out(tx: Tx, run: RunRow, spec_json: str) -> _Flow:
    """Write down the tasks of a run that begins. One that repeats another keeps what went well there."""
    flow = _Flow(run.id, run.job_id, run.tenant, run.version, "live", 0, 0, 0, 0, "", "")
    try:
        spec = decode_spec(spec_json)
    except msgspec.MsgspecError as error:
        unread(run.job_id, error)
        flow.failed, flow.because, flow.spec = 1, "what it executes cannot be read", encode_spec(_NO_SPEC).decode()
        return flow
    assert isinstance(spec.task, Workflow)
    tasks = spec.task.tasks
    before = await _before(tx, run, tasks)
    kept = workflow.kept(tasks, before.tasks)
    rows: list[Row] = []
    for step in workflow.begin(tasks, kept):
        old = before.tasks.get(step.place)
        if step.place in kept:
            rows += [_new_row(run.id, each) for each in before.instances.get(step.place, ())]
        elif old is not None and old.instances and step.fresh:
            rows += _again(run.id, step, before.instances.get(step.place, ()))
        rows.append(_new_row(run.id, step))
    flow.tasks, flow.open = len(tasks), len(tasks) - len(kept)
    flow.skipped = sum(step.state is TaskState.SKIPPED for step in kept.values())
    flow.spec = encode_spec(_shared(spec)).decode()
    await tx.insert(WORKFLOW_RUNS, [_flow_row(flow)])
    await tx.insert(WORKFLOW_TASKS, rows)
    nodes = [
        (run.id, place, as_json(node.task), as_json(node.children), as_json(node.sources))
        for place, node in enumerate(workflow.graph(tasks))
    ]
    await tx.insert(WORKFLOW_NODES, nodes)
    return flow


class _Before(Struct):
    """What a run repeats."""

    tasks: dict[int, Step] = {}
    instances: dict[int, list[Step]] = {}


async def _before(tx: Tx, run: RunRow, tasks: Sequence[WorkflowTask]) -> _Before:
    if run.origin != Origin.RETRY or run.retry_of is None:
        return _Before()
    before = _Before()
    for row in await tx.fetch(TASKS_OF_FLOW, id=run.retry_of):
        step = _step(WorkflowTaskRow(*row))
        before.tasks[step.place] = step
    if [step.name for step in before.tasks.values()] != [task.name for task in tasks]:
        return _Before()  # somebody edited what it executes
    for row in await tx.fetch(INSTANCES_OF_FLOW, id=run.retry_of, most=1 << 40):
        step = _step(WorkflowTaskRow(*row))
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
    return [_new_row(flow_id, each) for each in instances]


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
    return stowed(common, spec.parameters_at) if isinstance(spec, StowedSpec) else common


_NO_SPEC: Final = JobSpec(task_id=WEAVER)


# --- stopping -----------------------------------------------------------------------------------------------------


async def _stop(flows: Mapping[str, str], tx: Tx) -> Woven:
    """Make no more runs for workflow runs that somebody cancelled, and cancel those that they have."""
    await settling.lock_jobs(tx, sorted(set(flows.values())))
    found = [_Flow(*row) for row in await tx.fetch(LIVE_FLOWS, b=sorted(flows))]
    stopping = [flow for flow in found if flow.state == "live" and flow.cancel_requested_at is not None]
    if not stopping:
        return Woven()
    named = [flow.id for flow in stopping]
    await tx.execute(DROP_WAITING_TASKS, b=named, reason=CANCELLED)
    await tx.execute(LOOK_AT_NOTHING, b=named)
    live = {run_id: flow_id for flow_id, run_id in await tx.fetch(LIVE_TASK_RUNS, b=named)}
    alive = Counter(live.values())
    for flow in stopping:
        flow.state, flow.open = "stopping", alive[flow.id]
    await _write_flows(tx, stopping)
    found_runs, now = await lock_runs(tx, sorted(live))
    at_once = {flow.id for flow in stopping if flow.kill}
    for kill in (False, True):
        if mine := [run for run in found_runs if (live[run.id] in at_once) is kill]:
            await runs.cancel(tx, mine, now, reason=CANCELLED, kill=kill)
    return await _end(tx, [flow for flow in stopping if flow.open == 0], Woven(stopped=len(stopping)))


# --- going on -----------------------------------------------------------------------------------------------------


async def _advance(flows: Mapping[str, str], limit: int, large: Mapping[str, bytes | None], tx: Tx) -> Woven:
    """Tell those who need tasks that have ended, and make the runs of those that may begin."""
    await settling.lock_jobs(tx, sorted(set(flows.values())))
    found = [_Flow(*row) for row in await tx.fetch(LIVE_FLOWS, b=sorted(flows))]
    # What somebody cancelled makes no run any more; it is stopped first.
    going = {flow.id: flow for flow in found if flow.cancel_requested_at is None or flow.state == "stopping"}
    if not going:
        return Woven()
    loom = _Loom(tx, going, large)
    await loom.load(await tx.fetch(FRESH_TASKS, b=list(going), most=limit))
    await loom.join()
    await loom.tell()
    await loom.make(limit)
    await loom.persist()
    over = [flow for flow in going.values() if flow.open == 0]
    return await _end(tx, over, Woven(made=len(loom.made), moved=loom.moved, wants=tuple(sorted(loom.wants))))


class _Loom:
    """One look at fresh tasks of some workflow runs, whose jobs are locked."""

    def __init__(self, tx: Tx, flows: dict[str, _Flow], large: Mapping[str, bytes | None]) -> None:
        self._tx = tx
        self._flows = flows
        self._steps: dict[_Key, Step] = {}
        self._nodes: dict[_Place, Node] = {}
        self._begun: list[Row] = []
        self._large = large
        self.made: list[NewRun] = []
        self.moved = 0
        self.wants: set[str] = set()

    async def load(self, fresh: Iterable[Row]) -> None:
        self._take(fresh)
        await self._load_tasks({(flow_id, place) for flow_id, place, index in self._steps if index >= 0})

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            found = WorkflowTaskRow(*row)
            self._steps.setdefault((found.flow_id, found.place, found.idx), _step(found))

    async def _load_tasks(self, places: set[_Place]) -> None:
        missing = sorted(place for place in places if (*place, -1) not in self._steps)
        if missing:
            self._take(await self._tx.fetch(TASKS_AT, b=missing))

    def _ended(self) -> list[tuple[_Flow, Step]]:
        """Those that have ended and of whom nobody knows."""
        return [(self._flows[key[0]], step) for key, step in self._steps.items() if step.fresh and step.has_ended]

    async def join(self) -> None:
        """End tasks all of whose instances have ended; and forget what stops."""
        complete: list[tuple[str, Step]] = []
        for flow, step in self._ended():
            if flow.state == "stopping":
                self.moved += 1
                step.fresh = False
                flow.open -= step.run_id is not None
            elif step.index >= 0:
                self.moved += 1
                step.fresh = False
                task = self._steps[flow.id, step.place, -1]
                task.open -= 1
                if task.open == 0:
                    complete.append((flow.id, task))
        if not complete:
            return
        # Who counts reads the store: what this look has not written yet are ends that the store knows already.
        places = [(flow_id, task.place) for flow_id, task in complete]
        failed = {(row[0], row[1]): (row[2], row[3]) for row in await self._tx.fetch(FAILED_INSTANCES, b=places)}
        firsts = [(*place, first) for place, (_, first) in failed.items()]
        rows = await self._tx.fetch(REASONS_OF_INSTANCES, b=firsts) if firsts else []
        reasons = {(flow_id, place): reason for flow_id, place, reason in rows}
        for flow_id, task in complete:
            count, _ = failed.get((flow_id, task.place), (0, 0))
            workflow.join(task, count, reasons.get((flow_id, task.place), ""))

    async def tell(self) -> None:
        news = self._ended()
        if not news:
            return
        places = sorted((flow.id, step.place) for flow, step in news)
        rows = await self._tx.fetch(CHILDREN_AT, b=places)
        children = {(flow_id, place): _places(found) for flow_id, place, found in rows}
        await self._load_tasks({(flow_id, child) for (flow_id, _), found in children.items() for child in found})
        self.moved += len(news)
        for flow, step in news:
            step.fresh = False
            flow.count(step)
            for child in children[flow.id, step.place]:
                workflow.tell(step, self._steps[flow.id, child, -1])

    async def make(self, limit: int) -> None:
        """Begin tasks that may, as many as one transaction should; the others stay fresh."""
        ready = [(self._flows[key[0]], step) for key, step in self._steps.items() if step.fresh and not step.has_ended]
        if not ready:
            return
        await self._load_nodes({(flow.id, step.place) for flow, step in ready[:limit]})
        begin: list[tuple[_Flow, Step]] = []
        for flow, step in ready[:limit]:
            step.run_if = self._nodes[flow.id, step.place].task.run_if
            reason = workflow.skip_reason(step) if step.index < 0 else None
            if reason is not None:
                self.moved += 1
                step.end(TaskState.SKIPPED, reason)
            else:
                begin.append((flow, step))
        if not begin:
            return
        ((now,),) = await self._tx.fetch(NOW)
        results = await self._results(begin)
        shared = {flow_id: self._shared(self._flows[flow_id]) for flow_id in {flow.id for flow, _ in begin}}
        size = 0
        for flow, step in begin:
            spec = shared[flow.id]
            waits = any(
                results[flow.id, place] is _AWAITED for place in self._nodes[flow.id, step.place].sources.values()
            )
            if spec is not None and not waits and size < MOST_BYTES:
                size += self._start(flow, step, spec, results, now)
        await triggers.insert(self._tx, [(run, 0, True) for run in self.made], now)

    def _shared(self, flow: _Flow) -> JobSpec | None:
        """What its tasks share; None: its parameters are elsewhere, and wanted."""
        spec = decode_spec(flow.spec)
        if not isinstance(spec, StowedSpec):
            return spec
        found = self._object(spec.parameters_at, "the parameters of the workflow are gone")
        if found is _AWAITED:
            return None
        return spec.with_parameters({} if isinstance(found, Missing) else found)

    def _object(self, key: str, gone: str) -> Any:
        """What is in an object elsewhere, if it was brought here."""
        if key not in self._large:
            self.wants.add(key)
            return _AWAITED
        content = self._large[key]
        return Missing(gone) if content is None else msgspec.json.decode(content)

    async def _load_nodes(self, places: set[_Place]) -> None:
        for row in await self._tx.fetch(NODES_AT, b=sorted(places)):
            found = WorkflowNodeRow(*row)
            node = Node(_decode_task(found.definition), _places(found.children), _sources(found.sources))
            self._nodes[found.flow_id, found.place] = node

    def _start(self, flow: _Flow, step: Step, shared: JobSpec, results: Mapping[_Place, Any], now: Micros) -> int:
        """Give a task its run, or its instances; how many bytes that is."""
        node = self._nodes[flow.id, step.place]
        definition = node.task
        known = Known(
            {name: results[flow.id, place] for name, place in node.sources.items()},
            shared.parameters,
            msgspec.json.decode(step.item) if step.item is not None else msgspec.UNSET,
        )
        try:
            if step.index < 0 and definition.for_each is not msgspec.UNSET:
                return self._spread(flow, step, workflow.items(definition, known))
            spec = task_spec(shared, definition, workflow.parameters(definition, known))
        except Missing as error:
            self.moved += 1
            step.end(TaskState.FAILED, str(error))
            return 0
        run_id = ids.run(now, ids.Digest(f"{flow.id}/{step.place}/{step.index}"))
        run = new_run(_job(flow, shared), run_id, Origin.TASK, now, now, edited=spec)
        step.state, step.fresh, step.run_id = TaskState.RUNNING, False, run_id
        self.made.append(run)
        return len(encode_spec(spec))

    def _spread(self, flow: _Flow, step: Step, items: list[Any]) -> int:
        self.moved += 1
        step.instances = step.open = len(items)
        if not items:
            step.end(TaskState.SUCCEEDED)
            return 0
        step.state, step.fresh = TaskState.RUNNING, False
        size = 0
        for index, item in enumerate(items):
            each = Step(step.place, index, step.name, fresh=True, item=as_json(item))
            self._begun.append(_new_row(flow.id, each))
            size += len(each.item or "")
        return size

    async def _results(self, begin: Sequence[tuple[_Flow, Step]]) -> dict[_Place, Any]:
        """What the tasks left behind that others use; a `Missing` where that is nothing."""
        wanted = {
            (flow.id, place) for flow, step in begin for place in self._nodes[flow.id, step.place].sources.values()
        }
        rows = await self._tx.fetch(RESULTS_AT, b=sorted(wanted)) if wanted else []
        run_ids = sorted({row[-1] for row in rows if row[-1] is not None})
        results = dict(map(tuple, await self._tx.fetch(RESULTS_OF_TASKS, b=run_ids))) if run_ids else {}
        found: dict[_Place, Any] = {}
        for flow_id, place, index, name, state, instances, run_id in rows:
            result = results.get(run_id)
            value: Any
            if index < 0 and instances is not None:
                value = []
            elif state != TaskState.SUCCEEDED:
                value = Missing(f"there is no result of task {name}: it {_ENDS.get(state, state)}")
            elif result is None:
                value = Missing(f"there is no result of task {name}: it left none")
            elif (key := reference(Raw(result.encode()))) is not None:
                value = self._object(key, f"the result of task {name} is gone")
            else:
                value = msgspec.json.decode(result)
            if index < 0 or isinstance(value, Missing) or value is _AWAITED:
                found[flow_id, place] = value
            elif isinstance(found[flow_id, place], list):
                found[flow_id, place].append(value)
        return found

    async def persist(self) -> None:
        if self._begun:
            await self._tx.insert(WORKFLOW_TASKS, self._begun)
        if self._steps:
            await self._tx.execute(WRITE_TASKS, b=[_standing(key[0], step) for key, step in self._steps.items()])
            await _write_flows(self._tx, self._flows.values())


_AWAITED: Final = object()
"""Stands for what is elsewhere, until somebody brings it."""
_ENDS: Final = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


# --- ending -------------------------------------------------------------------------------------------------------


async def _end(tx: Tx, over: Sequence[_Flow], done: Woven) -> Woven:
    """End workflow runs all of whose tasks have."""
    if not over:
        return done
    flows = {flow.id: flow for flow in over}
    found, now = await lock_runs(tx, sorted(flows))
    await _conclude(tx, [(run, flows[run.id]) for run in found], now)
    return done.and_(Woven(ended=len(over)))


async def _conclude(tx: Tx, over: Sequence[tuple[RunRow, _Flow]], now: Micros) -> None:
    """Move workflow runs, whose rows are locked, to the history; a cancel wins."""
    history: list[Row] = []
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
        flow.state = "ended"
    await follows.echo(tx, history)
    await settling.finish(tx, history)
    await settling.release(tx, sorted({run.job_id for run, _ in over}))
    await turns.leave(tx, gone)
    await tx.execute(LOOK_AT_NOTHING, b=[flow.id for _, flow in over])
    await _write_flows(tx, [flow for _, flow in over])


# --- rows ---------------------------------------------------------------------------------------------------------


def _job(flow: _Flow, shared: JobSpec) -> Job:
    """The job of a workflow, as far as the runs of its tasks need it."""
    return Job(
        id=flow.job_id,
        tenant=flow.tenant,
        spec=shared,
        version=flow.version,
        state=JobState.ACTIVE,
        anchor=0,
        next_fire_at=None,
        plan_at=None,
        created_at=0,
        updated_at=0,
    )


def _step(row: WorkflowTaskRow) -> Step:
    return Step(
        place=row.place,
        index=row.idx,
        name=row.name,
        state=TaskState(row.state),
        fresh=bool(row.fresh),
        waits=row.waits,
        unmet=row.unmet,
        ill=row.ill,
        because=row.because,
        open=row.open,
        instances=row.instances,
        run_id=row.run_id,
        reason=row.reason,
        item=row.item,
    )


def _new_row(flow_id: str, step: Step) -> Row:
    return as_tuple(
        WorkflowTaskRow(
            flow_id,
            step.place,
            step.index,
            step.name,
            step.state.value,
            int(step.fresh),
            step.waits,
            step.unmet,
            step.ill,
            step.because,
            step.open,
            step.instances,
            step.run_id,
            step.reason,
            step.item,
        )
    )


def _standing(flow_id: str, step: Step) -> Row:
    return (
        flow_id,
        step.place,
        step.index,
        step.state.value,
        int(step.fresh),
        step.waits,
        step.unmet,
        step.ill,
        step.because,
        step.open,
        step.instances,
        step.run_id,
        step.reason,
    )


def _flow_row(flow: _Flow) -> Row:
    return as_tuple(flow)[: len(WORKFLOW_RUNS.columns)]


async def _write_flows(tx: Tx, flows: Iterable[_Flow]) -> None:
    await tx.execute(
        WRITE_FLOWS,
        b=[(flow.id, flow.state, flow.open, flow.failed, flow.skipped, flow.because) for flow in flows],
    )
