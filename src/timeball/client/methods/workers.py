"""Methods about workers."""

from __future__ import annotations

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.workers import DrainingWorker, Worker
from timeball.client.requests import workers as requests


class WorkerMethods(Asking):
    """Methods of `Client` about workers."""

    def workers(self, *, gone: bool = False) -> list[Worker]:
        """Return the live workers, newest first. With `gone`, the list continues with workers that were lost or left
        within the last hour."""
        return self.ask(requests.workers(gone=gone)).items

    def drain_worker(self, worker_id: str) -> DrainingWorker:
        """Order a worker to drain: it accepts no new attempts, finishes those that it holds, and ends its session."""
        return self.ask(requests.drain_worker(worker_id))


class AsyncWorkerMethods(AsyncAsking):
    """Methods of `AsyncClient` about workers."""

    async def workers(self, *, gone: bool = False) -> list[Worker]:
        """Return the live workers, newest first. With `gone`, the list continues with workers that were lost or left
        within the last hour."""
        return (await self.ask(requests.workers(gone=gone))).items

    async def drain_worker(self, worker_id: str) -> DrainingWorker:
        """Order a worker to drain: it accepts no new attempts, finishes those that it holds, and ends its session."""
        return await self.ask(requests.drain_worker(worker_id))
