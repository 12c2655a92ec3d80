"""Methods about backfills."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.backfills import Backfill, BackfillRange
from timeball.client.requests import backfills as requests
from timeball.client.requests.request import When, fresh_key


class BackfillMethods(Asking):
    """Of `Client`."""

    def backfill(
        self,
        job_id: str,
        since: When,
        until: When | None = None,
        *,
        parallelism: int = 1,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Have the fires in [since, until) run, again or for the first time: oldest first, `parallelism` at a time.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one backfill.
        """
        key = idempotency_key or fresh_key()
        return self.ask(requests.backfill(job_id, since, until, parallelism=parallelism, idempotency_key=key))

    def backfill_range(self, job_id: str, since: When, until: When | None = None) -> BackfillRange:
        """The fires that such a backfill would have. Nothing happens."""
        return self.ask(requests.backfill_range(job_id, since, until))

    def backfills(self, *, job_id: str | None = None) -> Iterator[Backfill]:
        """Newest first."""
        return self._pages(lambda cursor: requests.backfills(job_id=job_id, cursor=cursor))

    def backfill_progress(self, backfill_id: str) -> Backfill:
        """How far a backfill is."""
        return self.ask(requests.backfill_progress(backfill_id))

    def cancel_backfill(self, backfill_id: str) -> Backfill:
        """Make no more runs of a backfill, and cancel those that are alive."""
        return self.ask(requests.cancel_backfill(backfill_id))


class AsyncBackfillMethods(AsyncAsking):
    """Of `AsyncClient`."""

    async def backfill(
        self,
        job_id: str,
        since: When,
        until: When | None = None,
        *,
        parallelism: int = 1,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Have the fires in [since, until) run, again or for the first time: oldest first, `parallelism` at a time.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one backfill.
        """
        key = idempotency_key or fresh_key()
        return await self.ask(requests.backfill(job_id, since, until, parallelism=parallelism, idempotency_key=key))

    async def backfill_range(self, job_id: str, since: When, until: When | None = None) -> BackfillRange:
        """The fires that such a backfill would have. Nothing happens."""
        return await self.ask(requests.backfill_range(job_id, since, until))

    def backfills(self, *, job_id: str | None = None) -> AsyncIterator[Backfill]:
        """Newest first."""
        return self._pages(lambda cursor: requests.backfills(job_id=job_id, cursor=cursor))

    async def backfill_progress(self, backfill_id: str) -> Backfill:
        """How far a backfill is."""
        return await self.ask(requests.backfill_progress(backfill_id))

    async def cancel_backfill(self, backfill_id: str) -> Backfill:
        """Make no more runs of a backfill, and cancel those that are alive."""
        return await self.ask(requests.cancel_backfill(backfill_id))
