"""The store's time, seen beside the wall clock of the machine that keeps it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from timeball.domain.errors import TimeballError
from timeball.domain.instant import SECOND, Micros, render


class ClockRefused(TimeballError):
    """A server does not start on a store whose time is too far from the wall clock. Nothing was changed."""

    code = "clock_refused"


class ClockState(Struct, frozen=True, kw_only=True):
    """What decides when planning goes ahead."""

    store_time: Micros
    wall_clock: Micros | None
    """None: the clock of the database server is the store's time."""
    held_since: Micros | None = None
    """The store's time at which planning was put on hold; None: it is not."""
    confirmed_in: Micros = 0
    """While planning is held: how long the wall clock has to agree with the steady clock until it is accepted."""

    @property
    def ahead(self) -> Micros:
        """How far the wall clock is ahead of the store's time; negative: behind it."""
        return 0 if self.wall_clock is None else self.wall_clock - self.store_time

    @property
    def why(self) -> str:
        if self.wall_clock is None:
            return "The database server's clock is the store's time."
        if self.held_since is not None:
            return (
                f"Planning is held: the wall clock stepped ahead, to {render(self.wall_clock)}. It is accepted in"
                f" {-(-self.confirmed_in // SECOND)} s unless it steps again, or at once with `timeball clock accept`."
            )
        if self.ahead < -SECOND:
            return (
                f"The wall clock is behind the store's time by {-self.ahead // SECOND} s: the store's time runs at half"
                " speed until the wall clock has caught up."
            )
        return "The store's time is the wall clock's."


class ClockStore(Protocol):
    def clock_state(self) -> ClockState: ...

    def planning_held(self) -> bool:
        """Whether no fire may be planned, because the wall clock stepped ahead and nothing has confirmed it yet."""
        ...

    def verdicts_until(self) -> Micros:
        """Up to when instants may have a verdict although they have not come: the store's clock was ahead, and was set
        back. 0: it never was."""
        ...

    async def accept_clock(self) -> ClockState:
        """Take the wall clock's word for the step that planning is held for; durable when this returns. Changes
        nothing if planning is not held. Raises `Conflict` if the store's time is far ahead of the wall clock: it never
        runs backwards while a server is up."""
        ...
