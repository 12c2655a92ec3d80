"""Methods about jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import Unpack

from timeball.client.job_document import amendment
from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.diagnosis import JobWhy, Ledger
from timeball.client.models.job import Job, JobOptions
from timeball.client.models.jobs import Cancelled, Created, JobStatus, Triggered
from timeball.client.requests import jobs as requests
from timeball.client.requests.request import When


class JobMethods(Asking):
    """Of `Client`."""

    def create_job(self, name: str = "", /, **options: Unpack[JobOptions]) -> Job:
        """Submit a job. When this returns, it is durable.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one job.
        """
        return self.ask(requests.new_job(name, options))

    def batch(self, jobs: Iterable[JobOptions], idempotency_key: str | None = None) -> list[Created]:
        """Submit up to 10,000 jobs in one durable step; options as for `create_job`. One bad job does not fail
        the others: its item has an `error`.

        Keys cost a row for each job, so none is made up here: without one, a batch whose answer was lost is not sent
        again but raises `Unavailable`.
        """
        return self.ask(requests.batch(jobs, idempotency_key)).items

    def job(self, job_id: str) -> Job:
        return self.ask(requests.job(job_id))

    def jobs(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        user_id: str | None = None,
        task_id: str | None = None,
    ) -> Iterator[Job]:
        """All matching jobs, newest first, fetched page by page while you iterate."""
        return self._pages(
            lambda cursor: requests.jobs(
                status=status, name=name, tag=tag, user_id=user_id, task_id=task_id, cursor=cursor
            )
        )

    def update_job(self, job_id: str, *, version: int | None = None, **changes: Unpack[JobOptions]) -> Job:
        """Change what is named and leave the rest; None takes a rule away. With `version`, only if nobody changed the
        job since it had that version (else `PreconditionFailed`). What was acknowledged wins from that instant on."""
        return self.ask(requests.update_job(job_id, amendment(changes), version))

    def delete_job(self, job_id: str) -> Cancelled:
        """Stop its schedule and cancel its live runs. History stays."""
        return self.ask(requests.delete_job(job_id))

    def pause(self, job_id: str, reason: str = "", *, until: When | None = None) -> Job:
        """Nothing fires until it is resumed: by somebody, or by itself at `until`."""
        return self.ask(requests.pause(job_id, reason, until))

    def resume(self, job_id: str) -> Job:
        return self.ask(requests.resume(job_id))

    def run_now(self, job_id: str) -> Triggered:
        """Start a run beside the schedule; the job's overlap policy applies."""
        return self.ask(requests.run_now(job_id))

    def status(self, job_id: str) -> JobStatus:
        """The run that started last, else the one that is next."""
        return self.ask(requests.status(job_id))

    def next(self, job_id: str, count: int = 5) -> list[datetime]:
        """The coming fires of a job."""
        return self.ask(requests.next_of_job(job_id, count)).times

    def ledger(self, job_id: str, since: When | None = None, until: When | None = None) -> Ledger:
        """What became of every due instant in [since, until): sums, and all entries."""
        ledger = self.ask(requests.ledger(job_id, since=since, until=until))
        while ledger.next_cursor is not None:
            page = requests.ledger(job_id, since=since, until=until, cursor=ledger.next_cursor)
            ledger = ledger.joined(self.ask(page))
        return ledger

    def why_job(self, job_id: str) -> JobWhy:
        """What the job waits for, and why its newest exceptions happened."""
        return self.ask(requests.why_job(job_id))


class AsyncJobMethods(AsyncAsking):
    """Of `AsyncClient`."""

    async def create_job(self, name: str = "", /, **options: Unpack[JobOptions]) -> Job:
        """Submit a job. When this returns, it is durable.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one job.
        """
        return await self.ask(requests.new_job(name, options))

    async def batch(self, jobs: Iterable[JobOptions], idempotency_key: str | None = None) -> list[Created]:
        """Submit up to 10,000 jobs in one durable step; options as for `create_job`. One bad job does not fail
        the others: its item has an `error`.

        Keys cost a row for each job, so none is made up here: without one, a batch whose answer was lost is not sent
        again but raises `Unavailable`.
        """
        return (await self.ask(requests.batch(jobs, idempotency_key))).items

    async def job(self, job_id: str) -> Job:
        return await self.ask(requests.job(job_id))

    def jobs(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        user_id: str | None = None,
        task_id: str | None = None,
    ) -> AsyncIterator[Job]:
        """All matching jobs, newest first, fetched page by page while you iterate."""
        return self._pages(
            lambda cursor: requests.jobs(
                status=status, name=name, tag=tag, user_id=user_id, task_id=task_id, cursor=cursor
            )
        )

    async def update_job(self, job_id: str, *, version: int | None = None, **changes: Unpack[JobOptions]) -> Job:
        """Change what is named and leave the rest; None takes a rule away. With `version`, only if nobody changed the
        job since it had that version (else `PreconditionFailed`). What was acknowledged wins from that instant on."""
        return await self.ask(requests.update_job(job_id, amendment(changes), version))

    async def delete_job(self, job_id: str) -> Cancelled:
        """Stop its schedule and cancel its live runs. History stays."""
        return await self.ask(requests.delete_job(job_id))

    async def pause(self, job_id: str, reason: str = "", *, until: When | None = None) -> Job:
        """Nothing fires until it is resumed: by somebody, or by itself at `until`."""
        return await self.ask(requests.pause(job_id, reason, until))

    async def resume(self, job_id: str) -> Job:
        return await self.ask(requests.resume(job_id))

    async def run_now(self, job_id: str) -> Triggered:
        """Start a run beside the schedule; the job's overlap policy applies."""
        return await self.ask(requests.run_now(job_id))

    async def status(self, job_id: str) -> JobStatus:
        """The run that started last, else the one that is next."""
        return await self.ask(requests.status(job_id))

    async def next(self, job_id: str, count: int = 5) -> list[datetime]:
        """The coming fires of a job."""
        return (await self.ask(requests.next_of_job(job_id, count))).times

    async def ledger(self, job_id: str, since: When | None = None, until: When | None = None) -> Ledger:
        """What became of every due instant in [since, until): sums, and all entries."""
        ledger = await self.ask(requests.ledger(job_id, since=since, until=until))
        while ledger.next_cursor is not None:
            page = requests.ledger(job_id, since=since, until=until, cursor=ledger.next_cursor)
            ledger = ledger.joined(await self.ask(page))
        return ledger

    async def why_job(self, job_id: str) -> JobWhy:
        """What the job waits for, and why its newest exceptions happened."""
        return await self.ask(requests.why_job(job_id))
