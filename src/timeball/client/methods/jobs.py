"""Methods about jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import Literal, Unpack

from timeball.client.job_document import amendment
from timeball.client.job_selection import JobFilters, JobSelection
from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.diagnosis import JobWhy, Ledger
from timeball.client.models.job import Job, JobOptions
from timeball.client.models.jobs import BulkJobs, Cancelled, Created, JobStatus, JobVersion, Triggered
from timeball.client.requests import jobs as requests
from timeball.client.requests.request import When


class JobMethods(Asking):
    """Methods of `Client` about jobs."""

    def create_job(self, name: str = "", /, **options: Unpack[JobOptions]) -> Job:
        """Submit a job. The job is durable when this returns.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second job. A second call does.
        """
        return self.ask(requests.new_job(name, options))

    def batch(self, jobs: Iterable[JobOptions], idempotency_key: str | None = None) -> list[Created]:
        """Submit up to 10,000 jobs in one durable commit, each with the options of `create_job`. An invalid job does
        not affect the others: its item has an `error`.

        The client generates no idempotency keys here, because keys cost a row for each job. Without a key, a batch
        whose answer was lost is not sent again; `Unavailable` is raised.
        """
        return self.ask(requests.batch(jobs, idempotency_key)).items

    def job(self, job_id: str) -> Job:
        """Return a job."""
        return self.ask(requests.job(job_id))

    def jobs(self, **where: Unpack[JobFilters]) -> Iterator[Job]:
        """Yield all jobs that match the filters, newest first. The client requests page after page during the
        iteration."""
        return self._pages(requests.pages_of_jobs(where))

    def bulk_jobs(
        self,
        action: Literal["pause", "resume", "run", "cancel"],
        *,
        reason: str = "",
        until: When | None = None,
        dry_run: bool = False,
        seen: Callable[[BulkJobs], None] | None = None,
        **where: Unpack[JobSelection],
    ) -> BulkJobs:
        """Pause, resume, run or cancel all jobs that the filters select, in any number. A dry run only counts.

        The client sends one request after the other, each for some hundred jobs. After each answer it calls `seen` with
        the sum of all answers so far. A request whose answer was lost is sent again, and changes nothing twice.
        """
        if dry_run or (action == "run" and where.get("created_before") is None):
            counted = self.ask(requests.bulk_jobs(action, where, dry_run=True))
            if dry_run:
                return counted
            where["created_before"] = counted.created_before
        done = BulkJobs()
        cursor: str | None = None
        while True:
            request = requests.bulk_jobs(action, where, reason=reason, until=until, cursor=cursor)
            done = done.joined(self.ask(request))
            if seen is not None:
                seen(done)
            if (cursor := done.next_cursor) is None:
                return done

    def update_job(self, job_id: str, *, version: int | None = None, **changes: Unpack[JobOptions]) -> Job:
        """Change the given options of a job, and no others. None removes an option. With `version`, raise
        `PreconditionFailed` if the job has been changed since that version. The change applies to all fires after its
        acknowledgement."""
        return self.ask(requests.update_job(job_id, amendment(changes), version))

    def delete_job(self, job_id: str) -> Cancelled:
        """Cancel a job: stop its schedule and cancel its live runs. The history stays."""
        return self.ask(requests.delete_job(job_id))

    def pause(self, job_id: str, reason: str = "", *, until: When | None = None) -> Job:
        """Pause a job. It does not fire until it is resumed, by `resume` or automatically at `until`."""
        return self.ask(requests.pause(job_id, reason, until))

    def resume(self, job_id: str) -> Job:
        """Resume a paused job. Its catch-up rule decides about the fires during the pause."""
        return self.ask(requests.resume(job_id))

    def run_now(self, job_id: str) -> Triggered:
        """Start a run now, in addition to the schedule. The overlap policy of the job applies."""
        return self.ask(requests.run_now(job_id))

    def job_versions(self, job_id: str) -> Iterator[JobVersion]:
        """Yield the definitions of a job, newest first: the current one and at most 50 former ones."""
        return self._pages(lambda cursor: requests.versions(job_id, cursor=cursor))

    def status(self, job_id: str) -> JobStatus:
        """Return the status of the run that started last; if none has started, of the next run; if there is no run, of
        the job."""
        return self.ask(requests.status(job_id))

    def next(self, job_id: str, count: int = 5) -> list[datetime]:
        """Return those of the next `count` fires of a job that calendars do not exclude."""
        return self.ask(requests.next_of_job(job_id, count)).times

    def ledger(self, job_id: str, since: When | None = None, until: When | None = None) -> Ledger:
        """Return the ledger of a job: the verdict on every fire in [since, until), and the sums."""
        ledger = self.ask(requests.ledger(job_id, since=since, until=until))
        while ledger.next_cursor is not None:
            page = requests.ledger(job_id, since=since, until=until, cursor=ledger.next_cursor)
            ledger = ledger.joined(self.ask(page))
        return ledger

    def why_job(self, job_id: str) -> JobWhy:
        """Return what the job waits for, and why its newest fires did not start on time."""
        return self.ask(requests.why_job(job_id))


class AsyncJobMethods(AsyncAsking):
    """Methods of `AsyncClient` about jobs."""

    async def create_job(self, name: str = "", /, **options: Unpack[JobOptions]) -> Job:
        """Submit a job. The job is durable when this returns.

        Without an `idempotency_key` each call generates one, so that a request that the client repeats by itself
        creates no second job. A second call does.
        """
        return await self.ask(requests.new_job(name, options))

    async def batch(self, jobs: Iterable[JobOptions], idempotency_key: str | None = None) -> list[Created]:
        """Submit up to 10,000 jobs in one durable commit, each with the options of `create_job`. An invalid job does
        not affect the others: its item has an `error`.

        The client generates no idempotency keys here, because keys cost a row for each job. Without a key, a batch
        whose answer was lost is not sent again; `Unavailable` is raised.
        """
        return (await self.ask(requests.batch(jobs, idempotency_key))).items

    async def job(self, job_id: str) -> Job:
        """Return a job."""
        return await self.ask(requests.job(job_id))

    def jobs(self, **where: Unpack[JobFilters]) -> AsyncIterator[Job]:
        """Yield all jobs that match the filters, newest first. The client requests page after page during the
        iteration."""
        return self._pages(requests.pages_of_jobs(where))

    async def bulk_jobs(
        self,
        action: Literal["pause", "resume", "run", "cancel"],
        *,
        reason: str = "",
        until: When | None = None,
        dry_run: bool = False,
        seen: Callable[[BulkJobs], None] | None = None,
        **where: Unpack[JobSelection],
    ) -> BulkJobs:
        """Pause, resume, run or cancel all jobs that the filters select, in any number. A dry run only counts.

        The client sends one request after the other, each for some hundred jobs. After each answer it calls `seen` with
        the sum of all answers so far. A request whose answer was lost is sent again, and changes nothing twice.
        """
        if dry_run or (action == "run" and where.get("created_before") is None):
            counted = await self.ask(requests.bulk_jobs(action, where, dry_run=True))
            if dry_run:
                return counted
            where["created_before"] = counted.created_before
        done = BulkJobs()
        cursor: str | None = None
        while True:
            request = requests.bulk_jobs(action, where, reason=reason, until=until, cursor=cursor)
            done = done.joined(await self.ask(request))
            if seen is not None:
                seen(done)
            if (cursor := done.next_cursor) is None:
                return done

    async def update_job(self, job_id: str, *, version: int | None = None, **changes: Unpack[JobOptions]) -> Job:
        """Change the given options of a job, and no others. None removes an option. With `version`, raise
        `PreconditionFailed` if the job has been changed since that version. The change applies to all fires after its
        acknowledgement."""
        return await self.ask(requests.update_job(job_id, amendment(changes), version))

    async def delete_job(self, job_id: str) -> Cancelled:
        """Cancel a job: stop its schedule and cancel its live runs. The history stays."""
        return await self.ask(requests.delete_job(job_id))

    async def pause(self, job_id: str, reason: str = "", *, until: When | None = None) -> Job:
        """Pause a job. It does not fire until it is resumed, by `resume` or automatically at `until`."""
        return await self.ask(requests.pause(job_id, reason, until))

    async def resume(self, job_id: str) -> Job:
        """Resume a paused job. Its catch-up rule decides about the fires during the pause."""
        return await self.ask(requests.resume(job_id))

    async def run_now(self, job_id: str) -> Triggered:
        """Start a run now, in addition to the schedule. The overlap policy of the job applies."""
        return await self.ask(requests.run_now(job_id))

    def job_versions(self, job_id: str) -> AsyncIterator[JobVersion]:
        """Yield the definitions of a job, newest first: the current one and at most 50 former ones."""
        return self._pages(lambda cursor: requests.versions(job_id, cursor=cursor))

    async def status(self, job_id: str) -> JobStatus:
        """Return the status of the run that started last; if none has started, of the next run; if there is no run, of
        the job."""
        return await self.ask(requests.status(job_id))

    async def next(self, job_id: str, count: int = 5) -> list[datetime]:
        """Return those of the next `count` fires of a job that calendars do not exclude."""
        return (await self.ask(requests.next_of_job(job_id, count))).times

    async def ledger(self, job_id: str, since: When | None = None, until: When | None = None) -> Ledger:
        """Return the ledger of a job: the verdict on every fire in [since, until), and the sums."""
        ledger = await self.ask(requests.ledger(job_id, since=since, until=until))
        while ledger.next_cursor is not None:
            page = requests.ledger(job_id, since=since, until=until, cursor=ledger.next_cursor)
            ledger = ledger.joined(await self.ask(page))
        return ledger

    async def why_job(self, job_id: str) -> JobWhy:
        """Return what the job waits for, and why its newest fires did not start on time."""
        return await self.ask(requests.why_job(job_id))
