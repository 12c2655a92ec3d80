"""The asynchronous client: the methods of `Client`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from timeball.client import exchange, models, requests
from timeball.client.exchange import Destination, Sending
from timeball.client.http_async import AiohttpTransport, AsyncTransport
from timeball.client.http_sync import Incoming, Interrupted, Unreachable
from timeball.client.job_document import JobOptions, amendment
from timeball.client.log_tail import Lines, LogTail
from timeball.client.requests import Page, Request, When
from timeball.client.run_selection import Letters, LettersWhere, Runs
from timeball.client.wait import RunWait
from timeball.domain.errors import NotFound, Unavailable

T = TypeVar("T")


class AsyncClient:
    """`Client` for asyncio: the same methods with the same answers and errors. May be shared by tasks.

        async with timeball.AsyncClient() as client:
            job = await client.create_job("report", shell="python3 report.py", cron="0 2 * * *")
            async for run in client.runs(job_id=job.job_id):
                print(run.status)

    Without arguments it goes where `TIMEBALL_URL` and `TIMEBALL_TOKEN_FILE` (or `timeball.toml`) point, else to the
    Timeball on this machine. A lost connection or a 503 is tried again, `retries` times, wherever that cannot do
    anything twice. Whatever the server refuses is raised as an error of `timeball.TimeballError`'s tree.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | None = None,
        ca: str | None = None,
        timeout: float = 30.0,
        retries: int = exchange.RETRIES,
        transport: AsyncTransport | None = None,
    ) -> None:
        """`url` may name several servers, with commas; `token_file` a file with the key, instead of `token`; `ca` a PEM
        file of authorities to trust instead of the system's; `timeout` is in seconds, per request."""
        self._destination = Destination(url, token, token_file, ca)
        self._timeout = timeout
        self._retries = retries
        self._transport: AsyncTransport = AiohttpTransport(self._destination.ca) if transport is None else transport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._transport.close()

    # --- sending --------------------------------------------------------------------------------------------------

    async def send(self, request: Request[T]) -> bytes:
        """The body of the answer to a request, as it came. Raises what the server refuses."""
        sending = Sending(request, self._destination, self._retries)
        while True:
            try:
                incoming = await self._transport.send(sending.server, sending.outgoing, self._timeout)
            except (Unreachable, Interrupted) as error:
                pause = sending.failed(error)
            else:
                wanted = sending.answered(incoming)
                if wanted is None:
                    return exchange.body_of(incoming)
                pause = wanted
            await asyncio.sleep(pause)

    async def ask(self, request: Request[T]) -> T:
        return exchange.read(request, await self.send(request))

    async def _stream(self, request: Request[T]) -> AsyncGenerator[bytes, None]:
        """The body of the answer as it arrives; a part without anything in it says that there will be one."""
        server = self._destination.server
        outgoing = self._destination.outgoing(request)
        try:
            async with aclosing(self._transport.stream(server, outgoing, self._timeout)) as parts:
                async for part in parts:
                    yield exchange.body_of(part) if isinstance(part, Incoming) else part
        except (Unreachable, Interrupted) as error:
            raise self._destination.failed(request, server, error) from None

    async def _pages(self, page: Callable[[str | None], Request[Page[T]]]) -> AsyncIterator[T]:
        answer = await self.ask(page(None))
        while True:
            for item in answer.items:
                yield item
            if answer.next_cursor is None:
                return
            answer = await self.ask(page(answer.next_cursor))

    # --- jobs -----------------------------------------------------------------------------------------------------

    async def create_job(self, name: str = "", /, **options: Unpack[JobOptions]) -> models.Job:
        """Submit a job. When this returns, it is durable.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one job.
        """
        return await self.ask(requests.new_job(name, options))

    async def batch(self, jobs: Iterable[JobOptions], idempotency_key: str | None = None) -> list[models.Created]:
        """Submit up to 10,000 jobs in one durable step; options as for `create_job`. One bad job does not fail
        the others: its item has an `error`.

        Keys cost a row for each job, so none is made up here: without one, a batch whose answer was lost is not sent
        again but raises `Unavailable`.
        """
        return (await self.ask(requests.batch(jobs, idempotency_key))).items

    async def job(self, job_id: str) -> models.Job:
        return await self.ask(requests.job(job_id))

    def jobs(
        self,
        *,
        status: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        user_id: str | None = None,
        task_id: str | None = None,
    ) -> AsyncIterator[models.Job]:
        """All matching jobs, newest first, fetched page by page while you iterate."""
        return self._pages(
            lambda cursor: requests.jobs(
                status=status, name=name, tag=tag, user_id=user_id, task_id=task_id, cursor=cursor
            )
        )

    async def update_job(self, job_id: str, *, version: int | None = None, **changes: Unpack[JobOptions]) -> models.Job:
        """Change what is named and leave the rest; None takes a rule away. With `version`, only if nobody changed the
        job since it had that version (else `PreconditionFailed`). What was acknowledged wins from that instant on."""
        return await self.ask(requests.update_job(job_id, amendment(changes), version))

    async def delete_job(self, job_id: str) -> models.Cancelled:
        """Stop its schedule and cancel its live runs. History stays."""
        return await self.ask(requests.delete_job(job_id))

    async def pause(self, job_id: str, reason: str = "", *, until: When | None = None) -> models.Job:
        """Nothing fires until it is resumed: by somebody, or by itself at `until`."""
        return await self.ask(requests.pause(job_id, reason, until))

    async def resume(self, job_id: str) -> models.Job:
        return await self.ask(requests.resume(job_id))

    async def run_now(self, job_id: str) -> models.Triggered:
        """Start a run beside the schedule; the job's overlap policy applies."""
        return await self.ask(requests.run_now(job_id))

    async def backfill(
        self,
        job_id: str,
        since: When,
        until: When | None = None,
        *,
        parallelism: int = 1,
        idempotency_key: str | None = None,
    ) -> models.Backfill:
        """Have the fires in [since, until) run, again or for the first time: oldest first, `parallelism` at a time.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one backfill.
        """
        key = idempotency_key or requests.fresh_key()
        return await self.ask(requests.backfill(job_id, since, until, parallelism=parallelism, idempotency_key=key))

    async def backfill_range(self, job_id: str, since: When, until: When | None = None) -> models.BackfillRange:
        """The fires that such a backfill would have. Nothing happens."""
        return await self.ask(requests.backfill_range(job_id, since, until))

    def backfills(self, *, job_id: str | None = None) -> AsyncIterator[models.Backfill]:
        """Newest first."""
        return self._pages(lambda cursor: requests.backfills(job_id=job_id, cursor=cursor))

    async def backfill_progress(self, backfill_id: str) -> models.Backfill:
        """How far a backfill is."""
        return await self.ask(requests.backfill_progress(backfill_id))

    async def cancel_backfill(self, backfill_id: str) -> models.Backfill:
        """Make no more runs of a backfill, and cancel those that are alive."""
        return await self.ask(requests.cancel_backfill(backfill_id))

    # --- workflows ------------------------------------------------------------------------------------------------

    async def create_workflow(
        self, name: str, /, tasks: Iterable[Mapping[str, Any]], **options: Unpack[JobOptions]
    ) -> models.Workflow:
        """Submit a workflow: the JSON of its tasks, and options as for `create_job`. When this returns, it is durable.

        Without an `idempotency_key` the client makes one, so that its own repetitions make one workflow.
        """
        return await self.ask(requests.new_workflow(name, tasks, options))

    async def workflow(self, workflow_id: str) -> models.Workflow:
        return await self.ask(requests.workflow(workflow_id))

    def workflows(
        self, *, status: str | None = None, name: str | None = None, user_id: str | None = None
    ) -> AsyncIterator[models.Workflow]:
        """All matching workflows, newest first."""
        return self._pages(lambda cursor: requests.workflows(status=status, name=name, user_id=user_id, cursor=cursor))

    async def update_workflow(
        self,
        workflow_id: str,
        *,
        tasks: Iterable[Mapping[str, Any]] | None = None,
        version: int | None = None,
        **changes: Unpack[JobOptions],
    ) -> models.Workflow:
        """Change what is named and leave the rest. Runs that are under way go on with the tasks that they have."""
        body = amendment(changes) | ({} if tasks is None else {"tasks": list(tasks)})
        return await self.ask(requests.update_workflow(workflow_id, body, version))

    async def delete_workflow(self, workflow_id: str) -> models.Cancelled:
        """Stop its schedule and cancel its live runs with all their tasks. History stays."""
        return await self.ask(requests.delete_workflow(workflow_id))

    async def run_workflow(self, workflow_id: str) -> models.Triggered:
        """Start a run beside the schedule; the overlap policy applies."""
        return await self.ask(requests.run_workflow(workflow_id))

    async def pause_workflow(self, workflow_id: str, reason: str = "", *, until: When | None = None) -> models.Workflow:
        """Nothing fires until it is resumed: by somebody, or by itself at `until`."""
        return await self.ask(requests.pause_workflow(workflow_id, reason, until))

    async def resume_workflow(self, workflow_id: str) -> models.Workflow:
        return await self.ask(requests.resume_workflow(workflow_id))

    def workflow_runs(self, workflow_id: str, *, status: str | None = None) -> AsyncIterator[models.Run]:
        """The runs of a workflow, without those of its tasks, newest fire time first."""
        return self._pages(lambda cursor: requests.workflow_runs(workflow_id, status=status, cursor=cursor))

    async def workflow_run(self, run_id: str) -> models.WorkflowRun:
        """A workflow run, with the state of every task."""
        return await self.ask(requests.workflow_run(run_id))

    async def cancel_workflow_run(self, run_id: str) -> models.WorkflowRun:
        """Make no more runs of its tasks, and cancel those that are alive."""
        return await self.ask(requests.cancel_workflow_run(run_id))

    async def retry_workflow_run(self, run_id: str) -> models.WorkflowRun:
        """The run that takes its place: what succeeded is kept, the rest runs again."""
        return await self.ask(requests.retry_workflow_run(run_id))

    # --- about jobs -----------------------------------------------------------------------------------------------

    async def status(self, job_id: str) -> models.JobStatus:
        """The run that started last, else the one that is next."""
        return await self.ask(requests.status(job_id))

    async def next(self, job_id: str, count: int = 5) -> list[datetime]:
        """The coming fires of a job."""
        return (await self.ask(requests.next_of_job(job_id, count))).times

    async def ledger(self, job_id: str, since: When | None = None, until: When | None = None) -> models.Ledger:
        """What became of every due instant in [since, until): sums, and all entries."""
        ledger = await self.ask(requests.ledger(job_id, since=since, until=until))
        while ledger.next_cursor is not None:
            page = requests.ledger(job_id, since=since, until=until, cursor=ledger.next_cursor)
            ledger = ledger.joined(await self.ask(page))
        return ledger

    async def why_job(self, job_id: str) -> models.JobWhy:
        """What the job waits for, and why its newest exceptions happened."""
        return await self.ask(requests.why_job(job_id))

    # --- runs -----------------------------------------------------------------------------------------------------

    async def run(self, run_id: str) -> models.Run:
        return await self.ask(requests.run(run_id))

    def runs(
        self,
        *,
        job_id: str | None = None,
        status: str | None = None,
        since: When | None = None,
        until: When | None = None,
        tag: str | None = None,
        user_id: str | None = None,
        task_id: str | None = None,
        fingerprint: str | None = None,
        origin: str | None = None,
        archived: bool = False,
    ) -> AsyncIterator[models.Run]:
        """All matching runs, newest fire time first; `since` and `until` are about that time. With `archived`, those
        that have left the store for the archive, newest first."""
        return self._pages(
            lambda cursor: requests.runs(
                job_id=job_id,
                status=status,
                since=since,
                until=until,
                tag=tag,
                user_id=user_id,
                task_id=task_id,
                fingerprint=fingerprint,
                origin=origin,
                archived=archived,
                cursor=cursor,
            )
        )

    async def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        *,
        every: float = 1.0,
        seen: Callable[[models.Run], None] | None = None,
    ) -> models.Run:
        """The run once it has ended. `TimeoutError` if that takes longer than `timeout` seconds.

        Lost connections and servers that restart are waited out; `Unavailable` if no server answers for a minute, or if
        none ever did. `seen` is told how the run is getting on, each time it was looked at and has not ended.
        """
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
                pause = waiting.saw(run)
            await asyncio.sleep(pause)

    async def why_run(self, run_id: str) -> models.RunWhy:
        """Why the run waits, did not run, or was late."""
        return await self.ask(requests.why_run(run_id))

    async def cancel(self, run_id: str) -> models.Run:
        return await self.ask(requests.cancel(run_id))

    async def retry(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> models.Run:
        """Run a finished run again, as a new run that takes its place; or a waiting retry at once. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new run executes, and leaves the job as it is."""
        return await self.ask(requests.retry(run_id, edit))

    async def replay(self, run_id: str, *, edit: Mapping[str, Any] | None = None) -> models.Triggered:
        """One more run like one that has ended, by the job's current spec; the job's overlap policy applies."""
        return await self.ask(requests.replay(run_id, edit))

    async def run_spec(self, run_id: str) -> models.RunSpec:
        """What a run executes, or executed."""
        return await self.ask(requests.run_spec(run_id))

    async def bulk(
        self,
        action: Literal["cancel", "retry", "replay"],
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[Runs],
    ) -> models.Bulk:
        """Cancel, retry or replay all runs that are meant, however many. A dry run only counts them."""
        return await self.ask(requests.bulk(action, where, edit=edit, dry_run=dry_run))

    async def logs(self, run_id: str, *, attempt: int | None = None) -> str:
        return exchange.text(await self.ask(requests.logs(run_id, attempt=attempt)))

    async def follow_logs(self, run_id: str, *, attempt: int | None = None) -> AsyncGenerator[models.LogLine, None]:
        """What the run prints, line by line while it does, until it has ended.

        Lost connections and servers that restart are waited out: no line is lost, and none comes twice. `Unavailable`
        if no server answers for a minute.
        """
        lines = Lines()
        async with aclosing(self.follow_output(run_id, attempt=attempt)) as chunks:
            async for chunk in chunks:
                for line in lines.add(chunk):
                    yield line
        for line in lines.rest():
            yield line

    async def follow_output(self, run_id: str, *, attempt: int | None = None) -> AsyncGenerator[models.LogChunk, None]:
        """Like `follow_logs`, but exactly as it is printed: the rest of a line is not waited for."""
        following = LogTail(run_id, attempt)
        while not following.over:
            try:
                following.saw(await self.ask(following.run))
                if doubt := following.doubt:
                    following.found(await self.ask(doubt))
                async with aclosing(self._stream(following.stream())) as parts:
                    async for data in parts:
                        for chunk in following.heard(data):
                            yield chunk
                following.ended()
            except (NotFound, Unavailable) as error:
                following.broke(error)
            await asyncio.sleep(following.pause)

    async def result(self, run_id: str) -> Any:
        """What the run returned; None if it returned nothing, or has not yet."""
        return exchange.value(await self.ask(requests.result(run_id)))

    # --- the rest -------------------------------------------------------------------------------------------------

    def dead_letters(self, **where: Unpack[LettersWhere]) -> AsyncIterator[models.Run]:
        """Runs whose retries are exhausted and that nobody has retried or discarded yet, newest first."""
        return self._pages(lambda cursor: requests.dead_letters(where, cursor=cursor))

    async def dead_groups(self, **where: Unpack[LettersWhere]) -> list[models.DeadGroup]:
        """Dead letters by error, the most frequent first."""
        return (await self.ask(requests.dead_groups(where))).items

    async def retry_dead(
        self,
        run_ids: Sequence[str] = (),
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[Letters],
    ) -> models.Retrial:
        """Run dead letters again: these runs, or all that are meant, however many. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new runs execute, and leaves their jobs as they are."""
        return await self.ask(requests.retry_dead(run_ids, where, edit=edit, dry_run=dry_run))

    async def discard_dead(
        self, run_ids: Sequence[str] = (), *, dry_run: bool = False, **where: Unpack[Letters]
    ) -> models.Discarding:
        """Take runs off the dead letters: these, or all that are meant. They stay in the history."""
        return await self.ask(requests.discard_dead(run_ids, where, dry_run=dry_run))

    def tasks(self) -> AsyncIterator[models.Task]:
        return self._pages(lambda cursor: requests.tasks(cursor=cursor))

    def calendars(self) -> AsyncIterator[models.Calendar]:
        return self._pages(lambda cursor: requests.calendars(cursor=cursor))

    async def calendar(self, name: str) -> models.Calendar:
        return await self.ask(requests.calendar(name))

    async def put_calendar(
        self, name: str, entries: Sequence[Mapping[str, Any]], *, timezone: str = "UTC", description: str = ""
    ) -> models.Calendar:
        """Create a calendar, or replace it: no fire after the answer follows the old one. Each entry has `dates`, or
        `from` and `to`, or `cron` and `for`; and, if you like, a `reason`."""
        body = {"timezone": timezone, "description": description, "entries": list(entries)}
        return await self.ask(requests.put_calendar(name, body))

    async def delete_calendar(self, name: str) -> None:
        """Refused while a job that may still fire refers to it."""
        await self.ask(requests.delete_calendar(name))

    async def forecast(
        self, since: When | None = None, until: When | None = None, *, bucket: str = "1h"
    ) -> models.Forecast:
        """Fires to expect, by the hour or so, and what they will take of the workers that are there now; of the coming
        week, without anything else said."""
        return await self.ask(requests.forecast(since=since, until=until, bucket=bucket))

    async def preview_schedule(
        self,
        schedule: str | Mapping[str, Any],
        *,
        timezone: str | None = None,
        count: int = 10,
        after: When | None = None,
        name: str = "",
        calendars: Sequence[str] = (),
        excluded: str | None = None,
        start_at: When | None = None,
        end_at: When | None = None,
        max_runs: int | None = None,
    ) -> models.Preview:
        """What a cron expression, or a schedule as the JSON of a job has it, would do if it were saved: in a sentence,
        in its next fires, and what to beware of. The `name` of the job chooses the slot of an `H`."""
        return await self.ask(
            requests.preview_schedule(
                schedule,
                timezone=timezone,
                count=count,
                after=after,
                name=name,
                calendars=calendars,
                excluded=excluded,
                start_at=start_at,
                end_at=end_at,
                max_runs=max_runs,
            )
        )

    async def workers(self) -> list[models.Worker]:
        return (await self.ask(requests.workers())).items

    async def create_key(self, role: str = "worker", name: str = "") -> models.Key:
        """A new API key. Its `key` is told this once and kept nowhere."""
        return await self.ask(requests.create_key(role, name))
