"""Advances workflow runs: updates the tasks that need ended tasks, and creates the runs of tasks that may start.

A task is *fresh* if it is ready to start, or has ended and the tasks that need it have not been updated. Only fresh
tasks are read, so that the cost does not grow with the size of the workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from timeball.domain import ids
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState, OffloadedSpec, decode_spec, encode_spec, task_spec
from timeball.domain.job.large_values import reference
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.workflow import progress, references
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import Node, TaskState, WorkflowStep
from timeball.domain.workflow.references import KnownReferences, MissingReference
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.jobs import manual_runs
from timeball.stores.sql.names import FlowState
from timeball.stores.sql.rows.values import as_json
from timeball.stores.sql.schema.workflows import WORKFLOW_TASKS, WorkflowNodeRow, WorkflowTaskRow
from timeball.stores.sql.statements import many, query
from timeball.stores.sql.workflows.rows import Flow, new_row, standing, step_of, write_flows

NOW = query("now")
TASKS_AT = many(query("tasks_at"))
NODES_AT = many(query("nodes_at"))
CHILDREN_AT = query("children_at")
RESULTS_AT = many(query("results_at"))
RESULTS_OF_TASKS = many(query("results_of_tasks"))
FAILED_INSTANCES = query("failed_instances")
REASONS_OF_INSTANCES = query("reasons_of_instances")
WRITE_TASKS = query("write_tasks")

MAX_BYTES: Final = 8 << 20
"""A transaction starts no further task when the specs and the items of `forEach` that it has created have this size, in
bytes."""
_AWAITED: Final = object()
"""Stands for a value in object storage that the caller has not fetched yet."""
_ENDS: Final = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}

_decode_task = msgspec.json.Decoder(WorkflowTask).decode
_places = msgspec.json.Decoder(tuple[int, ...]).decode
_sources = msgspec.json.Decoder(dict[str, int]).decode
_Key = tuple[str, int, int]
_Place = tuple[str, int]


class WorkflowAdvance:
    """Advances some workflow runs by their fresh tasks, in one transaction. The jobs of these runs are locked."""

    def __init__(self, tx: Tx, flows: dict[str, Flow], large: Mapping[str, bytes | None]) -> None:
        self._tx = tx
        self._flows = flows
        self._steps: dict[_Key, WorkflowStep] = {}
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
            self._steps.setdefault((found.flow_id, found.place, found.idx), step_of(found))

    async def _load_tasks(self, places: set[_Place]) -> None:
        missing = sorted(place for place in places if (*place, -1) not in self._steps)
        if missing:
            self._take(await self._tx.fetch(TASKS_AT, b=missing))

    def _ended(self) -> list[tuple[Flow, WorkflowStep]]:
        """Return the tasks and instances that have ended and whose dependents have not been updated."""
        return [
            (self._flows[flow_id], step)
            for (flow_id, _, _), step in self._steps.items()
            if step.fresh and step.has_ended
        ]

    async def join(self) -> None:
        """End the tasks all of whose instances have ended. Of a workflow run that was cancelled, only count the task
        runs that have ended."""
        complete: list[tuple[str, WorkflowStep]] = []
        for flow, step in self._ended():
            if flow.state == FlowState.STOPPING:
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
        # The store counts the failed instances: it has the ends of these instances already, before this transaction
        # writes.
        places = [(flow_id, task.place) for flow_id, task in complete]
        rows = await self._tx.fetch(FAILED_INSTANCES, b=places)
        failed = {(flow_id, place): (count, first) for flow_id, place, count, first in rows}
        firsts = [(*place, first) for place, (_, first) in failed.items()]
        rows = await self._tx.fetch(REASONS_OF_INSTANCES, b=firsts) if firsts else []
        reasons = {(flow_id, place): reason for flow_id, place, reason in rows}
        for flow_id, task in complete:
            count, _ = failed.get((flow_id, task.place), (0, 0))
            progress.join(task, count, reasons.get((flow_id, task.place), ""))

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
                progress.tell(step, self._steps[flow.id, child, -1])

    async def make(self, limit: int) -> None:
        """Start or skip tasks that are ready, at most `limit`. Other tasks, those that wait for a value in object
        storage, and those after `MAX_BYTES` stay fresh for the next transaction."""
        ready = [
            (self._flows[flow_id], step)
            for (flow_id, _, _), step in self._steps.items()
            if step.fresh and not step.has_ended
        ]
        if not ready:
            return
        await self._load_nodes({(flow.id, step.place) for flow, step in ready[:limit]})
        begin: list[tuple[Flow, WorkflowStep]] = []
        for flow, step in ready[:limit]:
            step.run_if = self._nodes[flow.id, step.place].task.run_if
            reason = progress.skip_reason(step) if step.index < 0 else None
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
            if spec is not None and not waits and size < MAX_BYTES:
                size += self._start(flow, step, spec, results, now)
        await manual_runs.insert(self._tx, [(run, 0, True) for run in self.made], now)

    def _shared(self, flow: Flow) -> JobSpec | None:
        """Return what the tasks of a workflow run share; None if its parameters are in object storage and not fetched
        yet."""
        spec = decode_spec(flow.spec)
        if not isinstance(spec, OffloadedSpec):
            return spec
        found = self._object(spec.parameters_at, "the parameters of the workflow are gone")
        if found is _AWAITED:
            return None
        return spec.with_parameters({} if isinstance(found, MissingReference) else found)

    def _object(self, key: str, gone: str) -> Any:
        """Return the content of an object in object storage. If the caller has not fetched it yet, add its key to the
        keys that the caller fetches before the next try."""
        if key not in self._large:
            self.wants.add(key)
            return _AWAITED
        content = self._large[key]
        return MissingReference(gone) if content is None else msgspec.json.decode(content)

    async def _load_nodes(self, places: set[_Place]) -> None:
        for row in await self._tx.fetch(NODES_AT, b=sorted(places)):
            found = WorkflowNodeRow(*row)
            node = Node(_decode_task(found.definition), _places(found.children), _sources(found.sources))
            self._nodes[found.flow_id, found.place] = node

    def _start(
        self, flow: Flow, step: WorkflowStep, shared: JobSpec, results: Mapping[_Place, Any], now: Micros
    ) -> int:
        """Create the run of a task, or the rows of its instances (`forEach`). If the task refers to a result that does
        not exist, end it as failed. Return the size of what was created, in bytes."""
        node = self._nodes[flow.id, step.place]
        definition = node.task
        known = KnownReferences(
            {name: results[flow.id, place] for name, place in node.sources.items()},
            shared.parameters,
            msgspec.json.decode(step.item) if step.item is not None else msgspec.UNSET,
        )
        try:
            if step.index < 0 and definition.for_each is not msgspec.UNSET:
                return self._spread(flow, step, references.items(definition, known))
            spec = task_spec(shared, definition, references.parameters(definition, known))
        except MissingReference as error:
            self.moved += 1
            step.end(TaskState.FAILED, str(error))
            return 0
        run_id = ids.run(now, ids.Digest(f"{flow.id}/{step.place}/{step.index}"))
        run = new_run(_job(flow, shared), run_id, Origin.TASK, now, now, edited=spec)
        step.state, step.fresh, step.run_id = TaskState.RUNNING, False, run_id
        self.made.append(run)
        return len(encode_spec(spec))

    def _spread(self, flow: Flow, step: WorkflowStep, items: list[Any]) -> int:
        self.moved += 1
        step.instances = step.open = len(items)
        if not items:
            step.end(TaskState.SUCCEEDED)
            return 0
        step.state, step.fresh = TaskState.RUNNING, False
        size = 0
        for index, item in enumerate(items):
            each = WorkflowStep(step.place, index, step.name, fresh=True, item=as_json(item))
            self._begun.append(new_row(flow.id, each))
            size += len(each.item or "")
        return size

    async def _results(self, begin: Sequence[tuple[Flow, WorkflowStep]]) -> dict[_Place, Any]:
        """Return the results to which the tasks in `begin` refer, by place: a `MissingReference` where there is none,
        and `_AWAITED` where the result is in object storage and the caller has not fetched it yet."""
        wanted = {
            (flow.id, place) for flow, step in begin for place in self._nodes[flow.id, step.place].sources.values()
        }
        rows = await self._tx.fetch(RESULTS_AT, b=sorted(wanted)) if wanted else []
        run_ids = sorted({run_id for *_, run_id in rows if run_id is not None})
        results = dict(map(tuple, await self._tx.fetch(RESULTS_OF_TASKS, b=run_ids))) if run_ids else {}
        found: dict[_Place, Any] = {}
        for flow_id, place, index, name, state, instances, run_id in rows:
            result = results.get(run_id)
            value: Any
            if index < 0 and instances is not None:
                value = []
            elif state != TaskState.SUCCEEDED:
                value = MissingReference(f"there is no result of task {name}: it {_ENDS.get(state, state)}")
            elif result is None:
                value = MissingReference(f"there is no result of task {name}: it left none")
            elif (key := reference(Raw(result.encode()))) is not None:
                value = self._object(key, f"the result of task {name} is gone")
            else:
                value = msgspec.json.decode(result)
            if index < 0 or isinstance(value, MissingReference) or value is _AWAITED:
                found[flow_id, place] = value
            elif isinstance(found[flow_id, place], list):
                found[flow_id, place].append(value)
        return found

    async def persist(self) -> None:
        if self._begun:
            await self._tx.insert(WORKFLOW_TASKS, self._begun)
        if self._steps:
            await self._tx.execute(
                WRITE_TASKS, b=[standing(flow_id, step) for (flow_id, _, _), step in self._steps.items()]
            )
            await write_flows(self._tx, self._flows.values())


def _job(flow: Flow, shared: JobSpec) -> Job:
    """Return the job of a workflow, with the fields that the runs of its tasks need."""
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
