"""Reads the statistics of the overview: how runs ended in the last hours, the live runs, the next fires, and the
attention list."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from timeball.domain.instant import DAY, HOUR, MINUTE, Micros
from timeball.domain.overview.attention import Attention, attention
from timeball.domain.overview.tally import COARSE_WIDTH, FINE_WIDTH, RunTally
from timeball.operation.context import OperationContext
from timeball.operation.schedules.closed_times import with_open_fires
from timeball.ports.store.overview import Present, Upcoming

WINDOWS: Final = {"5m": 5 * MINUTE, "1h": HOUR, "24h": DAY}
MAX_UP_NEXT: Final = 10
MAX_CANDIDATES: Final = 2 * MAX_UP_NEXT
"""Number of next fires that are read, since calendars may exclude some of them."""


class ReadStatistics(Struct, frozen=True, kw_only=True):
    since: Micros
    until: Micros
    width: Micros
    buckets: list[tuple[Micros, RunTally]]
    """The first instant and the tally of each interval of the window, in order."""
    total: RunTally
    present: Present
    dead_letters: int
    up_next: list[Upcoming]
    attention: list[Attention]


async def read_statistics(context: OperationContext, tenant: str, window: str) -> ReadStatistics:
    length = WINDOWS[window]
    width = FINE_WIDTH if length < HOUR else COARSE_WIDTH
    now = context.store.now()
    until = now // width * width + width
    since = until - length
    found = await context.store.statistics(tenant, width, since, until)
    total = RunTally()
    for each in found.values():
        total.add(each)
    facts = await context.store.attention_facts(tenant)
    return ReadStatistics(
        since=since,
        until=now,
        width=width,
        buckets=[(at, found.get(at, _NOTHING)) for at in range(since, until, width)],
        total=total,
        present=await context.store.present(tenant),
        up_next=await up_next(context, tenant),
        dead_letters=facts.dead_letters,
        attention=attention(facts),
    )


_NOTHING: Final = RunTally()


async def up_next(context: OperationContext, tenant: str) -> list[Upcoming]:
    """Return the next fires, at most one per job."""
    found = await context.store.upcoming(tenant, MAX_CANDIDATES)
    if bound := [each.job_id for each in found if each.has_calendar]:
        jobs = await context.store.jobs(bound)
        opened = await with_open_fires(context, [*jobs.values()])
        fires = {each.job.id: each.next_run_at for each in opened}
        found = [
            structs.replace(each, fire_time=at)
            for each in found
            if (at := fires.get(each.job_id) if each.has_calendar else each.fire_time) is not None
        ]
    return sorted(found, key=lambda each: (each.fire_time, each.job_id))[:MAX_UP_NEXT]
