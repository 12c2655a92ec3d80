"""Methods about workers."""

from __future__ import annotations

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.workers import Worker
from timeball.client.requests import workers as requests


class WorkerMethods(Asking):
    """Methods of `Client` about workers."""

    def workers(self) -> list[Worker]:
        """Return the live workers, newest first."""
        return self.ask(requests.workers()).items


class AsyncWorkerMethods(AsyncAsking):
    """Methods of `AsyncClient` about workers."""

    async def workers(self) -> list[Worker]:
        """Return the live workers, newest first."""
        return (await self.ask(requests.workers())).items
