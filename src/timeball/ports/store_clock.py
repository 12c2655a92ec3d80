"""The store's time, compared with the wall clock of the machine of the store."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from timeball.domain.errors import TimeballError
from timeball.domain.instant import SECOND, Micros, render


class ClockRefused(TimeballError):
    """Raised if a server starts on a store whose time is too far from the wall clock. Nothing was changed."""

    code = "clock_refused"


class ClockState(Struct, frozen=True, kw_only=True):
    """The store's time, the wall clock, and whether planning is held: then no fires are planned, because the wall clock
    stepped ahead."""

    store_time: Micros
    wall_clock: Micros | None
    """The wall clock of the machine of the store; None if the store's time is the clock of the database server."""
    held_since: Micros | None = None
    """The store's time at which planning was held; None: planning is not held."""
    confirmed_in: Micros = 0
    """While planning is held: microseconds for which the wall clock must still agree with the monotonic clock before
    the store accepts it.
    """

    @property
    def ahead(self) -> Micros:
        """Microseconds that the wall clock is ahead of the store's time; negative: behind it."""
        return 0 if self.wall_clock is None else self.wall_clock - self.store_time

    @property
    def why(self) -> str:
        """A sentence for users that explains the state."""
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
    def clock_state(self) -> ClockState:
        """Return the store's time, the wall clock, and whether planning is held."""
        ...

    def planning_held(self) -> bool:
        """Return True if no fire may be planned, because the wall clock stepped ahead and is not confirmed yet."""
        ...

    def verdicts_until(self) -> Micros:
        """Return the instant up to which future fires may have a verdict already, because the store's clock was ahead
        and was set back. 0: the clock was never set back.
        """
        ...

    async def accept_clock(self) -> ClockState:
        """Accept the step of the wall clock for which planning is held. This is durable when it returns. If planning is
        not held, nothing changes. Raises `Conflict` if the store's time is far ahead of the wall clock: it never runs
        backwards while a server is up.
        """
        ...
