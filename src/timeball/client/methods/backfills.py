"""Methods about backfills."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.backfills import Backfill, BackfillRange
from timeball.client.requests import backfills as requests
from timeball.client.requests.request import When, fresh_key


class BackfillMethods(Asking):
    """Methods of `Client` about backfills."""

    def backfill(
        self,
        job_id: str,
        since: When,
        until: When | None = None,
        *,
        parallelism: int = 1,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Run the fires in [since, until), again or for the first time: oldest first, `parallelism` at a time. The
        default of `until` is now.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second backfill. A second call does.
        """
        key = idempotency_key or fresh_key()
        return self.ask(requests.backfill(job_id, since, until, parallelism=parallelism, idempotency_key=key))

    def backfill_range(self, job_id: str, since: When, until: When | None = None) -> BackfillRange:
        """Return the number of fires that a backfill of [since, until) would run. Nothing is changed."""
        return self.ask(requests.backfill_range(job_id, since, until))

    def backfills(self, *, job_id: str | None = None) -> Iterator[Backfill]:
        """Yield all backfills, or those of one job, newest first."""
        return self._pages(lambda cursor: requests.backfills(job_id=job_id, cursor=cursor))

    def backfill_progress(self, backfill_id: str) -> Backfill:
        """Return a backfill with its progress."""
        return self.ask(requests.backfill_progress(backfill_id))

    def cancel_backfill(self, backfill_id: str) -> Backfill:
        """Cancel a backfill: no more runs of it are created, and its live runs are cancelled."""
        return self.ask(requests.cancel_backfill(backfill_id))


class AsyncBackfillMethods(AsyncAsking):
    """Methods of `AsyncClient` about backfills."""

    async def backfill(
        self,
        job_id: str,
        since: When,
        until: When | None = None,
        *,
        parallelism: int = 1,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Run the fires in [since, until), again or for the first time: oldest first, `parallelism` at a time. The
        default of `until` is now.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second backfill. A second call does.
        """
        key = idempotency_key or fresh_key()
        return await self.ask(requests.backfill(job_id, since, until, parallelism=parallelism, idempotency_key=key))

    async def backfill_range(self, job_id: str, since: When, until: When | None = None) -> BackfillRange:
        """Return the number of fires that a backfill of [since, until) would run. Nothing is changed."""
        return await self.ask(requests.backfill_range(job_id, since, until))

    def backfills(self, *, job_id: str | None = None) -> AsyncIterator[Backfill]:
        """Yield all backfills, or those of one job, newest first."""
        return self._pages(lambda cursor: requests.backfills(job_id=job_id, cursor=cursor))

    async def backfill_progress(self, backfill_id: str) -> Backfill:
        """Return a backfill with its progress."""
        return await self.ask(requests.backfill_progress(backfill_id))

    async def cancel_backfill(self, backfill_id: str) -> Backfill:
        """Cancel a backfill: no more runs of it are created, and its live runs are cancelled."""
        return await self.ask(requests.cancel_backfill(backfill_id))
