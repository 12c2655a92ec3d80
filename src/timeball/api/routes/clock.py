"""Routes that show the store's time, and that end a hold of planning. While planning is held, the planner creates no
runs, because the wall clock stepped ahead.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.views import moment
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import SECOND, render
from timeball.operation.accept_clock import accept_clock
from timeball.ports.store_clock import ClockState


class ClockView(Struct, frozen=True, rename="camel", kw_only=True):
    store_time: str
    """The store's time, by which runs become due."""
    wall_clock: str | None
    """The clock of the machine with an SQLite store; null for PostgreSQL, whose clock is the store's time."""
    ahead_seconds: float
    """How far the wall clock is ahead of the store's time; negative if it is behind."""
    planning_held_since: str | None
    """Since when planning is held; null if it is not held."""
    accepted_in_seconds: float | None
    """While planning is held: seconds until the wall clock is accepted, unless it steps again."""
    why: str


async def show(call: Call) -> Answer:
    return answer_json(_view(call.context.store.clock_state()))


async def accept(call: Call) -> Answer:
    return answer_json(_view(await accept_clock(call.context)))


def _view(state: ClockState) -> ClockView:
    held = state.held_since is not None
    return ClockView(
        store_time=render(state.store_time),
        wall_clock=moment(state.wall_clock),
        ahead_seconds=round(state.ahead / SECOND, 3),
        planning_held_since=moment(state.held_since),
        accepted_in_seconds=round(state.confirmed_in / SECOND, 3) if held else None,
        why=state.why,
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/clock",
        permission=Permission.SYSTEM,
        summary="Show the store's time",
        description="An embedded store also reports whether planning is held because the wall clock stepped ahead.",
        handle=show,
        answer=ClockView,
    ),
    Route(
        method="POST",
        path="/v1/clock:accept",
        permission=Permission.SYSTEM,
        summary="Accept the wall clock",
        audit="clock.accept",
        description="Ends a hold of planning: the store takes the time of the wall clock, and leases and timers move"
        " with it. Without a hold it changes nothing.",
        handle=accept,
        answer=ClockView,
        problems=(409,),
    ),
)
