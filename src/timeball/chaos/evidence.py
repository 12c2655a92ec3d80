"""Waits until all runs of a load have ended, and reads from the fleet how they ended."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final, TypeVar

from timeball.chaos.history import Promise, Row, Sighting
from timeball.client.async_client import AsyncClient
from timeball.client.models.runs import Run
from timeball.client.requests import jobs as job_requests
from timeball.client.requests import runs as run_requests
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, Micros, of, to_datetime
from timeball.domain.run.status import LIVE

A = TypeVar("A")
B = TypeVar("B")

PAGE: Final = 1_000
AT_ONCE: Final = 8


async def quiet(client: AsyncClient, since: Micros, until: Micros, tag: str, timeout: float) -> float | None:
    """Wait until no run with this tag and a fire time in [`since`, `until`) is alive. Return how many seconds that
    took; None: such runs are still alive after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    request = run_requests.runs(status=LIVE, since=to_datetime(since), until=to_datetime(until), tag=tag, limit=1)
    while loop.time() - began < timeout:
        try:
            if not (await client.ask(request)).items:
                return loop.time() - began
        except (Unavailable, TimeoutError):
            pass  # the servers are still starting
        await asyncio.sleep(0.5)
    return None


async def rows(
    client: AsyncClient, promises: Sequence[Promise], since: Micros, until: Micros, seen: Iterable[Sighting]
) -> list[Row]:
    """Return the runs of these jobs with fire times in [`since`, `until`). A run that may have had several attempts
    also gets the workers of its attempts and the token of the stored result."""
    wanted = {promise.job_id for promise in promises}
    found = [run for run in await _runs(client, since, until) if run.job_id in wanted]
    started: dict[str, list[int]] = defaultdict(list)
    for sighting in seen:
        started[sighting.run_id].append(sighting.attempt)
    return await _each(found, lambda run: _row(client, run, started.get(run.run_id, ())))


async def unbalanced(client: AsyncClient, promises: Sequence[Promise]) -> list[str]:
    """Return the ids of those jobs with several fires whose ledger does not add up to the fires that were due."""

    async def look(promise: Promise) -> str | None:
        ledger = await client.ask(job_requests.ledger(promise.job_id, limit=1))
        right = ledger.balanced and ledger.due == len(promise.fires or ())
        return None if right else promise.job_id

    several = [promise for promise in promises if promise.fires is not None and len(promise.fires) > 1]
    return [job_id for job_id in await _each(several, look) if job_id is not None]


async def _runs(client: AsyncClient, since: Micros, until: Micros) -> list[Run]:
    found: list[Run] = []
    cursor: str | None = None
    while True:
        page = await client.ask(
            run_requests.runs(since=to_datetime(since), until=to_datetime(until), limit=PAGE, cursor=cursor)
        )
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


async def _row(client: AsyncClient, run: Run, started: Sequence[int]) -> Row:
    """Return the row of a run. `started` are the numbers of its attempts that the witness recorded. If there are
    several, the token of the stored result is read. If there were attempts before them, their workers are read.
    """
    workers: tuple[str, ...] = ()
    effective: int | None = None
    if len(started) > 1 and run.succeeded:
        result = await client.result(run.run_id)
        effective = result if isinstance(result, int) else None
    if min(started, default=1) > 1:
        workers = tuple(attempt.executor_id or "" for attempt in (await client.run(run.run_id)).attempts)
    return Row(
        run_id=run.run_id,
        job_id=run.job_id,
        fire_time=0 if run.fire_time is None else of(run.fire_time),
        status=run.status,
        verdict=run.verdict,
        reason=run.reason or "",
        attempt=run.attempt,
        token=run.fencing_token,
        late=None if run.late_ms is None else round(run.late_ms * MILLISECOND),
        ended_at=None if run.end_time is None else of(run.end_time),
        workers=workers,
        effective=effective,
    )


async def _each(items: Sequence[A], ask: Callable[[A], Coroutine[None, None, B]]) -> list[B]:
    """Call `ask` for each item, for a few items at the same time. Return the results in order."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: A) -> B:
        async with room:
            return await ask(item)

    return await asyncio.gather(*(one(item) for item in items))
