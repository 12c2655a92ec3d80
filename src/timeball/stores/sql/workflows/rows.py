"""Conversion of workflow runs and their tasks to rows and back."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Failure
from timeball.domain.run.status import Status
from timeball.domain.text.english import counted
from timeball.domain.workflow.progress import TaskState, WorkflowStep
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows.values import as_json
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.schema.workflows import WORKFLOW_RUNS, WorkflowTaskRow
from timeball.stores.sql.statements import query

WRITE_FLOWS = query("write_flows")


class Flow(Struct):
    """A workflow run that a transaction begins, advances, stops or ends."""

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

    def count(self, step: WorkflowStep) -> None:
        """Count a task that ended. It is called once per task, when its dependents are updated."""
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


def step_of(row: WorkflowTaskRow) -> WorkflowStep:
    return WorkflowStep(
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


def new_row(flow_id: str, step: WorkflowStep) -> Row:
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


def standing(flow_id: str, step: WorkflowStep) -> Row:
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


def flow_row(flow: Flow) -> Row:
    return as_tuple(flow)[: len(WORKFLOW_RUNS.columns)]


async def write_flows(tx: Tx, flows: Iterable[Flow]) -> None:
    await tx.execute(
        WRITE_FLOWS,
        b=[(flow.id, flow.state, flow.open, flow.failed, flow.skipped, flow.because) for flow in flows],
    )
