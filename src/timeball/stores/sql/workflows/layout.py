"""The rows of the tasks of a workflow run, written when the run begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.job.job import JobSpec, OffloadedSpec, decode_spec, encode_spec, offloaded
from timeball.domain.run.ledger import Origin
from timeball.domain.workflow import progress
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.domain.workflow.progress import TaskState, WorkflowStep
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.names import WEAVER, FlowState
from timeball.stores.sql.rows.jobs import computed
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import as_json
from timeball.stores.sql.schema.runs import RunRow
from timeball.stores.sql.schema.workflows import WORKFLOW_NODES, WORKFLOW_RUNS, WORKFLOW_TASKS, WorkflowTaskRow
from timeball.stores.sql.statements import many, query
from timeball.stores.sql.workflows.rows import Flow, flow_row, new_row, step_of

TASKS_OF_FLOW = many(query("tasks_of_flow"))
INSTANCES_OF_FLOW = many(query("instances_of_flow"))

_NO_SPEC: Final = JobSpec(task_id=WEAVER)


class _Before(Struct):
    """The tasks and instances of the failed workflow run that a retry replaces, by their place in the workflow."""

    tasks: dict[int, WorkflowStep] = {}
    instances: dict[int, list[WorkflowStep]] = {}


async def lay_out(tx: Tx, run: RunRow, spec_json: str) -> Flow:
    """Insert the rows of the tasks of a workflow run that begins. A retry keeps the tasks of the retried run that
    `progress.kept` returns, such as those that succeeded. If the spec cannot be decoded, return a failed flow without
    tasks."""
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


async def _before(tx: Tx, run: RunRow, tasks: Sequence[WorkflowTask]) -> _Before:
    if run.origin != Origin.RETRY or run.retry_of is None:
        return _Before()
    before = _Before()
    for row in await tx.fetch(TASKS_OF_FLOW, id=run.retry_of):
        step = step_of(WorkflowTaskRow(*row))
        before.tasks[step.place] = step
    if [step.name for step in before.tasks.values()] != [task.name for task in tasks]:
        return _Before()  # the workflow was edited after that run
    for row in await tx.fetch(INSTANCES_OF_FLOW, id=run.retry_of, limit=1 << 40):
        step = step_of(WorkflowTaskRow(*row))
        before.instances.setdefault(step.place, []).append(step)
    return before


def _laid_out(
    run_id: str, tasks: Sequence[WorkflowTask], kept: Mapping[int, WorkflowStep], before: _Before
) -> tuple[list[Row], list[Row]]:
    """Return the rows of the tasks of a run, and the rows of their definitions, which never change."""
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


def _again(flow_id: str, task: WorkflowStep, instances: Sequence[WorkflowStep]) -> list[Row]:
    """Reset those instances of a task that did not succeed, so that only they run again, and return the rows of all
    instances."""
    for each in instances:
        if each.state is not TaskState.SUCCEEDED:
            each.state, each.fresh, each.run_id, each.reason = TaskState.WAITING, True, None, ""
    task.instances = len(instances)
    task.open = sum(each.fresh for each in instances)
    task.state, task.fresh = TaskState.RUNNING, False
    if task.open == 0:  # every instance had succeeded, and the task failed for another reason
        task.end(TaskState.SUCCEEDED)
    return [new_row(flow_id, each) for each in instances]


def _shared(spec: JobSpec) -> JobSpec:
    """Return the spec that the tasks of a workflow share: the fields of the job's spec that hold for the run of every
    task."""
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
