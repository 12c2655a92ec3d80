"""Methods about workflows and their runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Unpack

from timeball.client.job_document import amendment
from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.job import JobOptions
from timeball.client.models.jobs import Cancelled, Triggered
from timeball.client.models.runs import Run
from timeball.client.models.workflows import Workflow, WorkflowRun
from timeball.client.requests import workflows as requests
from timeball.client.requests.request import When


class WorkflowMethods(Asking):
    """Methods of `Client` about workflows and their runs."""

    def create_workflow(
        self, name: str, /, tasks: Iterable[Mapping[str, Any]], **options: Unpack[JobOptions]
    ) -> Workflow:
        """Submit a workflow: the JSON of its tasks, and options as for `create_job`. The workflow is durable when this
        returns.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second workflow. A second call does.
        """
        return self.ask(requests.new_workflow(name, tasks, options))

    def workflow(self, workflow_id: str) -> Workflow:
        """Return a workflow."""
        return self.ask(requests.workflow(workflow_id))

    def workflows(
        self, *, status: str | None = None, name: str | None = None, user_id: str | None = None
    ) -> Iterator[Workflow]:
        """Yield all matching workflows, newest first."""
        return self._pages(lambda cursor: requests.workflows(status=status, name=name, user_id=user_id, cursor=cursor))

    def update_workflow(
        self,
        workflow_id: str,
        *,
        tasks: Iterable[Mapping[str, Any]] | None = None,
        version: int | None = None,
        **changes: Unpack[JobOptions],
    ) -> Workflow:
        """Change the given options of a workflow, and no others. With `version`, raise `PreconditionFailed` if the
        workflow has been changed since that version. Live runs continue with the tasks that they have."""
        body = amendment(changes) | ({} if tasks is None else {"tasks": list(tasks)})
        return self.ask(requests.update_workflow(workflow_id, body, version))

    def delete_workflow(self, workflow_id: str) -> Cancelled:
        """Cancel a workflow: stop its schedule and cancel its live runs with all their tasks. The history stays."""
        return self.ask(requests.delete_workflow(workflow_id))

    def run_workflow(self, workflow_id: str) -> Triggered:
        """Start a run now, in addition to the schedule. The overlap policy of the workflow applies."""
        return self.ask(requests.run_workflow(workflow_id))

    def pause_workflow(self, workflow_id: str, reason: str = "", *, until: When | None = None) -> Workflow:
        """Pause a workflow. It does not fire until it is resumed, by `resume_workflow` or automatically at `until`."""
        return self.ask(requests.pause_workflow(workflow_id, reason, until))

    def resume_workflow(self, workflow_id: str) -> Workflow:
        """Resume a paused workflow. Its catch-up rule decides about the fires during the pause."""
        return self.ask(requests.resume_workflow(workflow_id))

    def workflow_runs(self, workflow_id: str, *, status: str | None = None) -> Iterator[Run]:
        """Yield the runs of a workflow, without the runs of its tasks, latest fire time first."""
        return self._pages(lambda cursor: requests.workflow_runs(workflow_id, status=status, cursor=cursor))

    def workflow_run(self, run_id: str) -> WorkflowRun:
        """Return a workflow run with the state of every task."""
        return self.ask(requests.workflow_run(run_id))

    def cancel_workflow_run(self, run_id: str) -> WorkflowRun:
        """Cancel a workflow run: no more runs of its tasks are created, and its live runs are cancelled."""
        return self.ask(requests.cancel_workflow_run(run_id))

    def retry_workflow_run(self, run_id: str) -> WorkflowRun:
        """Retry a workflow run and return the run that replaces it. Failed tasks, and tasks that were skipped because
        of them, run again. Other tasks keep their results, unless a task that they need runs again."""
        return self.ask(requests.retry_workflow_run(run_id))


class AsyncWorkflowMethods(AsyncAsking):
    """Methods of `AsyncClient` about workflows and their runs."""

    async def create_workflow(
        self, name: str, /, tasks: Iterable[Mapping[str, Any]], **options: Unpack[JobOptions]
    ) -> Workflow:
        """Submit a workflow: the JSON of its tasks, and options as for `create_job`. The workflow is durable when this
        returns.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second workflow. A second call does.
        """
        return await self.ask(requests.new_workflow(name, tasks, options))

    async def workflow(self, workflow_id: str) -> Workflow:
        """Return a workflow."""
        return await self.ask(requests.workflow(workflow_id))

    def workflows(
        self, *, status: str | None = None, name: str | None = None, user_id: str | None = None
    ) -> AsyncIterator[Workflow]:
        """Yield all matching workflows, newest first."""
        return self._pages(lambda cursor: requests.workflows(status=status, name=name, user_id=user_id, cursor=cursor))

    async def update_workflow(
        self,
        workflow_id: str,
        *,
        tasks: Iterable[Mapping[str, Any]] | None = None,
        version: int | None = None,
        **changes: Unpack[JobOptions],
    ) -> Workflow:
        """Change the given options of a workflow, and no others. With `version`, raise `PreconditionFailed` if the
        workflow has been changed since that version. Live runs continue with the tasks that they have."""
        body = amendment(changes) | ({} if tasks is None else {"tasks": list(tasks)})
        return await self.ask(requests.update_workflow(workflow_id, body, version))

    async def delete_workflow(self, workflow_id: str) -> Cancelled:
        """Cancel a workflow: stop its schedule and cancel its live runs with all their tasks. The history stays."""
        return await self.ask(requests.delete_workflow(workflow_id))

    async def run_workflow(self, workflow_id: str) -> Triggered:
        """Start a run now, in addition to the schedule. The overlap policy of the workflow applies."""
        return await self.ask(requests.run_workflow(workflow_id))

    async def pause_workflow(self, workflow_id: str, reason: str = "", *, until: When | None = None) -> Workflow:
        """Pause a workflow. It does not fire until it is resumed, by `resume_workflow` or automatically at `until`."""
        return await self.ask(requests.pause_workflow(workflow_id, reason, until))

    async def resume_workflow(self, workflow_id: str) -> Workflow:
        """Resume a paused workflow. Its catch-up rule decides about the fires during the pause."""
        return await self.ask(requests.resume_workflow(workflow_id))

    def workflow_runs(self, workflow_id: str, *, status: str | None = None) -> AsyncIterator[Run]:
        """Yield the runs of a workflow, without the runs of its tasks, latest fire time first."""
        return self._pages(lambda cursor: requests.workflow_runs(workflow_id, status=status, cursor=cursor))

    async def workflow_run(self, run_id: str) -> WorkflowRun:
        """Return a workflow run with the state of every task."""
        return await self.ask(requests.workflow_run(run_id))

    async def cancel_workflow_run(self, run_id: str) -> WorkflowRun:
        """Cancel a workflow run: no more runs of its tasks are created, and its live runs are cancelled."""
        return await self.ask(requests.cancel_workflow_run(run_id))

    async def retry_workflow_run(self, run_id: str) -> WorkflowRun:
        """Retry a workflow run and return the run that replaces it. Failed tasks, and tasks that were skipped because
        of them, run again. Other tasks keep their results, unless a task that they need runs again."""
        return await self.ask(requests.retry_workflow_run(run_id))
