"""Methods about workers."""

from __future__ import annotations

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.workers import Worker
from timeball.client.requests import workers as requests


class WorkerMethods(Asking):
    """Of `Client`."""

    def workers(self) -> list[Worker]:
        return self.ask(requests.workers()).items


class AsyncWorkerMethods(AsyncAsking):
    """Of `AsyncClient`."""

    async def workers(self) -> list[Worker]:
        return (await self.ask(requests.workers())).items
