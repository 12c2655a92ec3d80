"""Methods about runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Literal, Unpack

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.diagnosis import RunWhy
from timeball.client.models.jobs import Triggered
from timeball.client.models.runs import Bulk, Run, RunSpec
from timeball.client.requests import runs as requests
from timeball.client.run_selection import RunFilters, RunSelection
from timeball.domain.errors import Unavailable


class RunMethods(Asking):
    """Methods of `Client` about runs."""

    def run(self, run_id: str) -> Run:
        """Return a run with its attempts."""
        return self.ask(requests.run(run_id))

    def runs(self, **where: Unpack[RunFilters]) -> Iterator[Run]:
        """Yield all runs that match the filters, latest fire time first. `since` and `until` limit the fire time. With
        `worker_id`, yield the runs that this worker executes now. With `archived`, yield the runs that are only in the
        archive, newest first."""
        return self._pages(requests.pages_of_runs(where))

    def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        *,
        every: float = 1.0,
        seen: Callable[[Run], None] | None = None,
    ) -> Run:
        """Wait until a run has ended, and return it. Raise `TimeoutError` if that takes longer than `timeout` seconds.

        The client requests the run at growing intervals of up to `every` seconds. It tolerates lost connections and
        restarts of servers, and raises `Unavailable` if no server answers for a minute, or if none has ever answered.
        `seen` is called with each answer in which the run has not ended.
        """
        from timeball.client.wait import RunWait

        waiting = RunWait(timeout, every)
        while True:
            try:
                run = self.run(run_id)
            except Unavailable as error:
                pause = waiting.broke(error)
            else:
                if run.done:
                    return run
                if seen is not None:
                    seen(run)
                pause = waiting.received(run)
            time.sleep(pause)

    def why_run(self, run_id: str) -> RunWhy:
        """Return the reasons why a run waits, did not run, or was late."""
        return self.ask(requests.why_run(run_id))

    def cancel(self, run_id: str) -> Run:
        """Cancel a run. Its only possible end is then `cancelled`."""
        return self.ask(requests.cancel(run_id))

    def retry(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> Run:
        """Retry a finished run with a new run that replaces it, or start a waiting retry at once. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new run executes; the job does not change."""
        return self.ask(requests.retry(run_id, edit))

    def replay(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> Triggered:
        """Create another run like one that has ended, with the current spec of the job. The overlap policy of the job
        applies."""
        return self.ask(requests.replay(run_id, edit))

    def run_spec(self, run_id: str) -> RunSpec:
        """Return the spec that a run executes or executed."""
        return self.ask(requests.run_spec(run_id))

    def bulk(
        self,
        action: Literal["cancel", "retry", "replay"],
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[RunSelection],
    ) -> Bulk:
        """Cancel, retry or replay all runs that the filters select, in any number. A dry run only counts."""
        return self.ask(requests.bulk(action, where, edit=edit, dry_run=dry_run))


class AsyncRunMethods(AsyncAsking):
    """Methods of `AsyncClient` about runs."""

    async def run(self, run_id: str) -> Run:
        """Return a run with its attempts."""
        return await self.ask(requests.run(run_id))

    def runs(self, **where: Unpack[RunFilters]) -> AsyncIterator[Run]:
        """Yield all runs that match the filters, latest fire time first. `since` and `until` limit the fire time. With
        `worker_id`, yield the runs that this worker executes now. With `archived`, yield the runs that are only in the
        archive, newest first."""
        return self._pages(requests.pages_of_runs(where))

    async def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        *,
        every: float = 1.0,
        seen: Callable[[Run], None] | None = None,
    ) -> Run:
        """Wait until a run has ended, and return it. Raise `TimeoutError` if that takes longer than `timeout` seconds.

        The client requests the run at growing intervals of up to `every` seconds. It tolerates lost connections and
        restarts of servers, and raises `Unavailable` if no server answers for a minute, or if none has ever answered.
        `seen` is called with each answer in which the run has not ended.
        """
        from timeball.client.wait import RunWait

        waiting = RunWait(timeout, every)
        while True:
            try:
                run = await self.run(run_id)
            except Unavailable as error:
                pause = waiting.broke(error)
            else:
                if run.done:
                    return run
                if seen is not None:
                    seen(run)
                pause = waiting.received(run)
            await self._sleep(pause)

    async def why_run(self, run_id: str) -> RunWhy:
        """Return the reasons why a run waits, did not run, or was late."""
        return await self.ask(requests.why_run(run_id))

    async def cancel(self, run_id: str) -> Run:
        """Cancel a run. Its only possible end is then `cancelled`."""
        return await self.ask(requests.cancel(run_id))

    async def retry(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> Run:
        """Retry a finished run with a new run that replaces it, or start a waiting retry at once. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new run executes; the job does not change."""
        return await self.ask(requests.retry(run_id, edit))

    async def replay(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> Triggered:
        """Create another run like one that has ended, with the current spec of the job. The overlap policy of the job
        applies."""
        return await self.ask(requests.replay(run_id, edit))

    async def run_spec(self, run_id: str) -> RunSpec:
        """Return the spec that a run executes or executed."""
        return await self.ask(requests.run_spec(run_id))

    async def bulk(
        self,
        action: Literal["cancel", "retry", "replay"],
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[RunSelection],
    ) -> Bulk:
        """Cancel, retry or replay all runs that the filters select, in any number. A dry run only counts."""
        return await self.ask(requests.bulk(action, where, edit=edit, dry_run=dry_run))
