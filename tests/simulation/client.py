"""Users: they submit jobs, change them, repeat requests, and record all answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tests.simulation import backfills, calendars, follows, preemption, tenants
from tests.simulation.network import Handler
from tests.simulation.records import JobRecord, Micros, Request
from tests.simulation.rules import Rules
from tests.simulation.weather import S
from timeball.domain import instant
from timeball.domain.dispatch.overlap import REPLACING, Overlap
from timeball.domain.errors import TimeballError, Unavailable
from timeball.domain.job.job import JobSpec
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Interval, Schedule
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.submit import Created, NewJob
from timeball.operation.jobs.update import update
from timeball.operation.runs import bulk
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.operation.runs.cancel import cancel_job, cancel_run
from timeball.operation.runs.discard import discard
from timeball.operation.runs.replay_run import replay_run
from timeball.operation.runs.retry_run import retry_run, retry_runs
from timeball.operation.runs.run_now import run_now
from timeball.ports.store.queries import Match, RunFilter
from timeball.server.server import Server

if TYPE_CHECKING:
    from tests.simulation.world import World

ABOUT_RUNS = ("run_now", "cancel_run", "retry_run", "retry_letters", "discard_run", "replay_run")
CRONS = (
    "* * * * * *",
    "*/5 * * * * *",
    "*/5 * * * * *",
    "3/10 * * * * *",
    "3/10 * * * * *",
    "10,20,45 * * * * *",
    "* * * * *",
    "*/2 * * * *",
    "30 */3 * * * *",
    "0 0 * * * *",
)


# --- what they submit ---------------------------------------------------------------------------------------------


def schedule(rng: Random, now: Micros, theme: str) -> Schedule:
    kind = rng.random()
    if theme == "edits":
        each_second = (Interval(expression="1s"), CronSchedule(expression="* * * * * *"))
        return rng.choice(each_second) if kind < 0.8 else recurring(rng)
    if theme == "zombies" and kind < 0.7:
        return Immediate()
    if theme in (backfills.THEME, calendars.THEME, follows.THEME) and kind < 0.9:
        return recurring(rng)
    if kind < 0.3:
        return Immediate()
    if kind < 0.5:
        away = rng.choice((-3600 * S, -5 * S, 200_000, 2 * S, 10 * S, 14 * S, 25 * S, 45 * S, 3600 * S))
        return Date(expression=instant.render(now + away + rng.randrange(S)))
    return recurring(rng)


def recurring(rng: Random) -> Schedule:
    if rng.random() < 0.5:
        return Interval(expression=f"{rng.choice((1, 2, 3, 5, 8, 13, 20, 45))}s")
    return CronSchedule(expression=rng.choice(CRONS))


def behaviour(rng: Random, often: bool, theme: str) -> dict[str, Any]:
    """Return the parameters that determine how the process of a job behaves. Jobs that fire often are short, because
    the backlog would outlast the simulation otherwise.
    """
    length = rng.choice((1_000, 20_000, 200_000, 800_000) if often else (20_000, 20_000, S, S, 4 * S, 20 * S, 35 * S))
    if theme == "zombies" and not often:
        length = rng.choice((15 * S, 25 * S, 40 * S))
    return {
        "length": length,
        "fails": rng.choice((0, 0, 0, 0.3, 1)) if not often else rng.choice((0, 0, 0, 0.2)),
        "poison": rng.choice((0,) * 12 + (0.3, 1)) if not often else 0,
        "stubborn": rng.random() < 0.15,
        "talks": rng.random() < 0.3,
    }


def specification(rng: Random, uid: int, tenant: str, now: Micros, theme: str, rules: Rules) -> JobSpec:
    when = schedule(rng, now, theme)
    often = isinstance(when, Interval | CronSchedule)
    behave = behaviour(rng, often, theme)
    long_running = behave["length"] > S
    overlap = rng.choice(tuple(Overlap))
    if often and overlap in REPLACING and rng.random() < 0.5:
        behave["length"] = rng.choice((3 * S, 12 * S))  # no other runs wait behind it
    asked = rules.asked(tenant, past=isinstance(when, Date) and instant.parse(when.expression) <= now)
    if often:
        asked |= rules.bounds(uid, when, now)
    if "ordering_key" in asked:
        behave["fails"] = min(behave["fails"], 0.5)
    spec = JobSpec(
        name=f"job-{uid}",
        task=rules.task(),
        parameters={"uid": uid, "rev": 0, "behave": behave},
        schedule=when,
        retry=Retry(
            max_retries=rng.choice((0, 1, 2, 3)),
            backoff=rng.choice(("fixed", "exponential")),
            base=rng.choice((0, 1)),
            cap="5s",
        ),
        timeout="6s" if long_running and rng.random() < 0.3 else None,
        grace=rng.choice(("1s", "3s")),
        overlap=overlap,
        catch_up=rng.choice(("all", "last", "none")),
        catch_up_window=rng.choice(("10s", "1m", "5m")) if often else "1h",
        priority=rng.choice(("high", "medium", "low", 5)),
        delivery="at_most_once" if rng.random() < (0.7 if theme == "deploys" else 0.1) else "at_least_once",
        **asked,
    )
    if theme == tenants.THEME:
        return tenants.shaped(spec, rng)
    return preemption.shaped(spec, rng) if theme == preemption.THEME else spec


# --- how they ask -------------------------------------------------------------------------------------------------


class Clients:
    """All users of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: list[JobRecord] = []
        self.requests = 0

    async def ask(
        self, kind: str, uid: int, handler: Handler, along: Sequence[JobRecord] = (), **noted: Any
    ) -> Request:
        """Send one request to some server and record it. This never raises. `along` are other jobs that the request is
        about.
        """
        world = self._world
        request = Request(kind, uid, world.now, **noted)
        for record in along:
            record.submissions.append(Request(kind, record.uid, world.now, spec=record.spec, batch=request))
        self.requests += 1
        job = self.jobs[uid]
        book = {"submit": job.submissions, **dict.fromkeys((*ABOUT_RUNS, "backfill", "cancel_backfill"), job.others)}
        book.get(kind, job.changes).append(request)
        house = world.rng.choice(world.servers)
        try:
            request.answer = await world.network.call("client", house, handler, 12 * S, request)
            request.outcome = "ok"
        except Unavailable:
            request.outcome = "unknown"
        except TimeballError as error:
            request.outcome = "refused"
            request.answer = error
        request.answered = world.now
        world.trace(kind, uid, request.rev, request.outcome, request.invoked)
        return request

    def new_record(self, now: Micros) -> JobRecord:
        uid = len(self.jobs)
        tenant = self._world.tenants.of(uid)
        spec = specification(self._world.rng, uid, tenant, now, self._world.theme, self._world.rules)
        if self._world.theme == calendars.THEME:
            spec = calendars.bound(spec, self._world.seed, uid)
        if self._world.theme == follows.THEME:
            spec = follows.chosen(spec, self._world, uid, tenant)
        record = JobRecord(uid, tenant, spec)
        self.jobs.append(record)
        return record

    async def submit(self, record: JobRecord, spec: JobSpec | None = None) -> Request:
        spec = spec or record.spec
        new = NewJob(record.tenant, spec, record.key, repr(spec) if record.key else "")

        async def handler(server: Server) -> Created:
            [created] = await self._world.submit_of(server)([new])
            if isinstance(created, TimeballError):
                raise created
            return created

        request = await self.ask("submit", record.uid, handler, spec=spec)
        if request.outcome == "ok" and spec is record.spec:
            record.job_id = request.answer.job_id
        return request

    async def submit_batch(self, records: list[JobRecord]) -> None:
        world = self._world
        news = [NewJob(record.tenant, record.spec) for record in records]

        async def handler(server: Server) -> list[Created | TimeballError]:
            return await world.submit_of(server)(news)

        first = await self.ask("submit", records[0].uid, handler, along=records[1:], spec=records[0].spec)
        answers, outcome = first.answer, first.outcome
        for index, record in enumerate(records):
            [request] = record.submissions
            request.answered, request.outcome = first.answered, outcome
            if outcome == "ok":
                request.answer = answers[index]
                # An error: its last fire has passed in the meantime, or the job that it follows is gone.
                if isinstance(request.answer, TimeballError):
                    request.outcome = "refused"
                else:
                    record.job_id = request.answer.job_id

    # --- what they do with a job -------------------------------------------------------------------------------

    async def change(self, record: JobRecord, kind: str) -> Request:
        """Update, pause, resume or cancel the job."""
        job_id = self._world.find(record)
        assert job_id is not None
        rng = self._world.rng
        if kind in ("update", "reschedule"):
            rev = 1 + sum(change.rev is not None for change in record.changes)
            when = recurring(rng) if kind == "reschedule" else None

            def revised(spec: JobSpec) -> JobSpec:
                changed = structs.replace(spec, parameters={**spec.parameters, "rev": rev})
                return changed if when is None else structs.replace(changed, schedule=when)

            return await self.ask(
                kind,
                record.uid,
                lambda server: update(server.context, record.tenant, job_id, revised),
                rev=rev,
                spec=revised(record.spec),
            )
        if kind == "pause_until":
            until = self._world.now + rng.randrange(15 * S)
            return await self.ask(
                "pause",
                record.uid,
                lambda server: pause(server.context, record.tenant, job_id, reason="for a while", until=until),
                until=until,
            )
        action: Handler = {
            "pause": lambda server: pause(server.context, record.tenant, job_id, reason="because"),
            "resume": lambda server: resume(server.context, record.tenant, job_id),
            "cancel": lambda server: cancel_job(server.context, record.tenant, job_id),
        }[kind]
        return await self.ask(kind, record.uid, action)

    async def trigger(self, record: JobRecord) -> None:
        job_id = self._world.find(record)
        assert job_id is not None
        request = await self.ask("run_now", record.uid, lambda server: run_now(server.context, record.tenant, job_id))
        if request.outcome == "ok":
            request.run_id = request.answer[0]

    async def cancel_some_run(self, record: JobRecord) -> None:
        runs = self._runs(record)
        if self._world.rng.random() < 0.5:
            runs.sort(key=lambda run: run.status != "running")
        if runs:
            await self._about_run("cancel_run", cancel_run, record, runs[0].id)

    async def retry_some_run(self, record: JobRecord) -> None:
        unlucky = [run for run in self._runs(record) if run.status in ("dead", "failed", "retrying", "cancelled")]
        if unlucky:
            again = self._world.rng.choice((1, 1, 2))
            await asyncio.gather(
                *(self._about_run("retry_run", retry_run, record, unlucky[0].id) for _ in range(again))
            )

    async def retry_letters(self, record: JobRecord) -> None:
        """Retry all dead letters of a job."""
        job_id = self._world.find(record)

        async def retry_all(server: Server) -> None:
            async def act(matches: Sequence[Match]) -> Sequence[BulkItemResult]:
                return await retry_runs(server.context, record.tenant, matches, only_dead_letters=True)

            letters = RunFilter(tenant=record.tenant, job_id=job_id, dead_letters=True)
            await bulk.over_filter(server.context, letters, act)

        await self.ask("retry_letters", record.uid, retry_all)

    async def discard_some_run(self, record: JobRecord) -> None:
        letters = [run for run in self._runs(record) if run.status in ("dead", "failed")]
        if letters:
            [letter, *_] = letters
            match = Match(letter.id, letter.job_id, letter.fire_time, letter.status)
            await self.ask("discard_run", record.uid, lambda server: discard(server.context, [match]))

    async def replay_some_run(self, record: JobRecord) -> None:
        ended = [run for run in self._runs(record) if run.is_terminal]
        if ended:
            await self._about_run("replay_run", replay_run, record, ended[0].id)

    async def retry(self, run_id: str) -> None:
        """Retry a certain run."""
        job_id = self._world.read("runs", [run_id])[run_id].job_id
        [record] = [record for record in self.jobs if self._world.find(record) == job_id]
        await self._about_run("retry_run", retry_run, record, run_id)

    async def _about_run(
        self, kind: str, operation: Callable[..., Coroutine[Any, Any, Any]], record: JobRecord, run_id: str
    ) -> None:
        await self.ask(kind, record.uid, lambda server: operation(server.context, record.tenant, run_id), run_id=run_id)

    def _runs(self, record: JobRecord) -> list[Any]:
        """Return the runs that a user sees in the list of runs, in a random order."""
        page = self._world.read("list_runs", RunFilter(tenant=record.tenant, job_id=self._world.find(record)), None, 30)
        runs = list(page.items)
        self._world.rng.shuffle(runs)
        return runs

    async def submit_and_cancel(self) -> None:
        """Submit a job that runs for a while, and cancel it soon after it started."""
        world = self._world
        record = self.new_record(world.now)
        behave = {**record.spec.parameters["behave"], "length": 12 * S, "poison": 0, "fails": 0}
        record.spec = structs.replace(
            record.spec,
            schedule=Immediate(),
            timeout=None,
            parameters={**record.spec.parameters, "behave": behave},
            priority=9,
            ordering_key=None,
            concurrency=None,
            rate_limit=None,
            resources=None,
            runs_on=[],
            start_at=None,
            end_at=None,
            max_runs=None,
            jitter=None,
            start_deadline=None,
            task=Shell(command="simulated"),
        )
        if (await self.submit(record)).outcome == "ok":
            await world.sleep(S)
            await self.cancel_some_run(record)

    # --- whole stories -----------------------------------------------------------------------------------------

    async def story(self, until: Micros) -> None:
        """One user with one job or a few, from the submission to the end of the faults."""
        world = self._world
        rng = world.rng
        await world.sleep(int(rng.random() ** 2 * max(0, until - world.now)))
        if rng.random() < (0.6 if world.theme == tenants.THEME else 0.15):
            most = 25 if world.theme == tenants.THEME else 6
            records = [self.new_record(world.now) for _ in range(rng.randrange(2, most))]
            await self.submit_batch(records)
        elif rng.random() < 0.25:
            records = [await self._submit_with_key()]
        else:
            records = [self.new_record(world.now)]
            await self.submit(records[0])
        record = rng.choice(records)
        if world.find(record) is None:
            return
        while world.now < until and rng.random() < 0.85:
            await world.sleep(int(rng.random() ** 2 * (4 if world.theme == "edits" else 15) * S))
            if world.now >= until:
                return
            await self._do_something(record)

    async def _do_something(self, record: JobRecord) -> None:
        rng = self._world.rng
        if self._world.theme == backfills.THEME and record.recurring and rng.random() < 0.5:
            await backfills.do_something(self, self._world, record)
            return
        kinds = ["update", "pause", "resume", *ABOUT_RUNS]
        if record.recurring:
            kinds += ["update", "reschedule", "pause", "resume", "pause_until"]
        if record.spec.ordering_key is not None:
            kinds += ["retry_run"] * 4
        if rng.random() < 0.07:
            kinds = ["cancel"]
        match rng.choice(kinds):
            case "run_now":
                await self.trigger(record)
            case "cancel_run":
                await self.cancel_some_run(record)
            case "retry_run":
                await self.retry_some_run(record)
            case "retry_letters":
                await asyncio.gather(*(self.retry_letters(record) for _ in range(rng.choice((1, 2)))))
            case "discard_run":
                await self.discard_some_run(record)
            case "replay_run":
                await self.replay_some_run(record)
            case "update" if rng.random() < 0.2:
                await asyncio.gather(self.change(record, "update"), self.change(record, "update"))
            case kind:
                await self.change(record, kind)

    async def _submit_with_key(self) -> JobRecord:
        """Send the same request several times, at the same time and again, until it is answered. Sometimes another
        request uses the same key.
        """
        world = self._world
        rng = world.rng
        record = self.new_record(world.now)
        # Keys of different tenants are equal, and mean different jobs.
        record.key = f"key-{sum(each.key is not None and each.tenant == record.tenant for each in self.jobs)}"
        await asyncio.gather(*(self.submit(record) for _ in range(rng.choice((1, 2, 4)))))
        for _ in range(3):
            if rng.random() < 0.6:
                await world.sleep(rng.randrange(4 * S))
                await self.submit(record)
        if rng.random() < 0.5:
            await self.submit(record, structs.replace(record.spec, description="another body"))
        return record
