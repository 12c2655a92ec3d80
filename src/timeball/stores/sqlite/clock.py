"""The time of a SQLite store: the wall clock, without its steps.

The time of the store follows the wall clock as long as that runs like the monotonic clock of the machine.

- A step ahead is *absorbed*: one transaction moves every lease and timer by the step and writes the new time of the
  store (the *mark*); after its commit the clock jumps. Until then the clock answers as if the step had not happened. A
  crash before the commit leaves the old time with the old leases, a crash after it the new time with the new leases.
- A step ahead of more than `STEP_TO_HOLD` is absorbed after the wall clock has agreed with the monotonic clock for
  `AGREEMENT_TIME`, or when a user accepts it. Planning is *held* until then: no fires are planned.
- While the wall clock is behind an earlier answer, time advances at half the rate of the monotonic clock until the wall
  clock has caught up. So no timestamp is earlier than one that was written before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from timeball.domain.errors import Conflict
from timeball.domain.instant import DAY, HOUR, MILLISECOND, SECOND, Micros, render
from timeball.ports.store_clock import ClockRefused, ClockState

MAX_SLEW: Final = 100 * MILLISECOND
"""How much the wall clock may gain on the monotonic clock between two readings without counting as a step. A lease ends
at most this much early because of it."""
STEP_TO_HOLD: Final = HOUR
"""If the wall clock steps ahead by more than this, no fires are planned until the step is confirmed or accepted."""
AGREEMENT_TIME: Final = 60 * SECOND
"""How long the wall clock must agree with the monotonic clock after a step of more than `STEP_TO_HOLD`."""
MAX_MARK_LEAD: Final = HOUR
"""No server starts on a store whose time is further ahead of the wall clock than this, unless a user accepts the
clock."""
MAX_ABSENCE: Final = 365 * DAY
"""No server starts on a store whose time is further behind the wall clock than this, unless a user accepts the
clock."""
MAX_READINGS: Final = 10

MARK_TIME: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('clock', ?)"
"""Every commit writes the time of the store, so that the clock of a restarted store never begins before a time that its
rows contain."""
_log = structlog.get_logger()


class SteadyClock:
    """The clock of a SQLite store: a call returns the time of the store in microseconds. Any thread may read it."""

    def __init__(self, wall: Callable[[], Micros], monotonic: Callable[[], Micros]) -> None:
        self.wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answered: Micros = wall()
        self._at: Micros = monotonic()
        self._max_gain: Micros = MAX_SLEW
        """Maximum gain of the wall clock on the monotonic clock that is not checked further. Negative while a step is
        pending, so that every reading is checked."""
        self._step: Micros = 0
        self._agrees_since: Micros = 0
        """The instant, on the monotonic clock, since which the wall clock has agreed with it."""
        self._held_since: Micros | None = None
        self._is_accepted = False
        self._is_behind = False
        self.absorbable = False
        """True if the next transaction must absorb a step."""

    def __call__(self) -> Micros:
        with self._lock:
            # The monotonic clock is read last: if the process pauses between the two readings, that looks like a step
            # back, which changes nothing.
            wall, at = self.wall(), self._monotonic()
            gain = wall - self._answered - at + self._at
            if -MAX_SLEW <= gain <= self._max_gain and wall >= self._answered:
                self._answered, self._at = wall, at
                return wall
            return self._judge()

    def start_from(self, mark: Micros) -> Micros:
        """Start at `mark`, the time of the store when it was last used. Return how far the wall clock is behind it."""
        with self._lock:
            if mark > self._answered:
                self._answered, self._at = mark, self._monotonic()
            return max(0, mark - self.wall())

    def jump(self, step: Micros) -> None:
        """Move the time ahead after a step was absorbed."""
        with self._lock:
            self._answered += step
            self._forget_step()
            now = self._answered
        _log.warning(
            "the wall clock stepped ahead; leases and timers moved with it",
            seconds=round(step / SECOND, 3),
            store_time=render(now),
        )

    def pending(self) -> tuple[Micros, Micros]:
        """Return the time of the store, and the step to absorb; 0 if there is none."""
        now = self()
        with self._lock:
            return now, self._step if self.absorbable else 0

    def is_held(self) -> bool:
        return self._held_since is not None

    def state(self) -> ClockState:
        now = self()
        with self._lock:
            left = self._agrees_since + AGREEMENT_TIME - self._at
            return ClockState(
                store_time=now,
                wall_clock=self.wall(),
                held_since=self._held_since,
                confirmed_in=0 if self._held_since is None else max(0, left),
            )

    def accept(self) -> None:
        """Let the next transaction absorb the step for which planning is held, because a user accepts it. If planning
        is not held, do nothing, but raise `Conflict` if the time of the store is more than an hour ahead of the wall
        clock."""
        now = self()
        with self._lock:
            if self._held_since is not None:
                self._is_accepted = self.absorbable = True
            elif (wall := self.wall()) + MAX_MARK_LEAD < now:
                raise Conflict(
                    f"the store's time, {render(now)}, is ahead of the wall clock, {render(wall)}, and never runs"
                    " backwards while a server is up: restart the server with --accept-clock"
                )

    def _judge(self) -> Micros:
        """Read both clocks and return the time of the store: a step ahead is noted but not followed yet, and while the
        wall clock is behind, the time of the store advances at half speed."""
        wall, at = self._read_together()
        elapsed = at - self._at
        gain = wall - self._answered - elapsed
        if gain > MAX_SLEW:
            self._answered += elapsed
            self._at = at
            self._note_step(gain)
            return self._answered
        if self._max_gain < 0:
            self._forget_step()
        if wall >= self._answered:
            self._answered, self._at = wall, at
            self._is_behind = False
            return wall
        half = elapsed // 2
        self._answered += half
        self._at += 2 * half
        if not self._is_behind and self._answered - wall > SECOND:
            self._is_behind = True
            _log.warning(
                "the wall clock stepped back; the store's time runs at half speed until it has caught up",
                store_time=render(self._answered),
                wall_clock=render(wall),
            )
        return self._answered

    def _read_together(self) -> tuple[Micros, Micros]:
        """Read the wall clock and the monotonic clock. The process may be stopped between the two readings, so they are
        repeated, up to `MAX_READINGS` times, until both were taken within `MAX_SLEW`."""
        wall = at = 0
        for _ in range(MAX_READINGS):
            before, wall, at = self._monotonic(), self.wall(), self._monotonic()
            if at - before <= MAX_SLEW:
                break
        return wall, at

    def _note_step(self, gain: Micros) -> None:
        if abs(gain - self._step) > MAX_SLEW:  # another step than the pending one
            self._agrees_since = self._at
            self._is_accepted = False
            if gain > STEP_TO_HOLD:
                self._held_since = self._answered if self._held_since is None else self._held_since
                _log.warning(
                    "the wall clock stepped ahead; planning is held until it has agreed with the steady clock for 60 s,"
                    " or `timeball clock accept`",
                    store_time=render(self._answered),
                    wall_clock=render(self._answered + gain),
                )
        self._max_gain = -MAX_SLEW - 1
        self._step = gain
        agrees = self._at - self._agrees_since >= AGREEMENT_TIME
        self.absorbable = gain <= STEP_TO_HOLD or self._is_accepted or agrees

    def _forget_step(self) -> None:
        if self._held_since is not None:
            _log.warning("planning is no longer held", store_time=render(self._answered))
        self._step = 0
        self._max_gain = MAX_SLEW
        self._held_since = None
        self._is_accepted = self.absorbable = False


def check_start(mark: Micros, wall: Micros) -> None:
    """Raise `ClockRefused` if `mark`, the time of the store, is more than an hour ahead of the wall clock, or more than
    a year behind it."""
    if mark - wall > MAX_MARK_LEAD:
        raise ClockRefused(
            f"the store's time is {render(mark)}, the wall clock says {render(wall)}: more than an hour earlier. Set"
            " the clock right, or start with --accept-clock if it is right: the store is then set back to it"
        )
    if wall - mark > MAX_ABSENCE:
        raise ClockRefused(
            f"the store's time is {render(mark)}, the wall clock says {render(wall)}: more than a year later. Set the"
            " clock right, or start with --accept-clock if it is right"
        )
