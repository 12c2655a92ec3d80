"""Lets another thread of the guard continue when a call takes long: the start of a program on a file server that does
not answer blocks the thread that starts it.

One thread at a time has the turn; only it uses the state of the guard. Another thread watches it, and takes the turn
when a call has not returned between two looks, `LONG_SECONDS` apart. No thread ever ends, because the kernel would kill
the jobs that it started (`PR_SET_PDEATHSIG`); a thread that lost its turn watches later ones.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import _thread
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn

LONG_SECONDS: Final = 0.05
MAX_QUIET_LOOKS: Final = 20
"""Number of looks without a call after which the watching thread sleeps until the next call."""


class TurnLost(Exception):
    """Raised in a thread whose turn another thread has taken."""


class Turns:
    def __init__(self, work: Callable[[], NoReturn], wake: Callable[[], None]) -> None:
        """`work` is called by each thread that gets the turn. It may raise `TurnLost`, and never returns. `wake` wakes
        the thread that has the turn.
        """
        self._work = work
        self._wake = wake
        self._call: list[bool] = []
        """The call in progress. It has one item. The thread that takes it has the turn after the call: the calling
        thread when the call returns, or the watching thread when the call takes long."""
        self.late: deque[Callable[[], None]] = deque()
        """Functions to call after calls whose threads lost the turn. The thread that has the turn calls them."""
        self._spare: list[_thread.LockType] = []
        """The locks for which the threads without a task wait."""
        self._watching = False
        """True if there is a watching thread."""
        self._sleep = _thread.allocate_lock()
        """The lock for which the watching thread waits if there are no calls."""
        self._sleep.acquire()
        self._asleep = False

    def serve(self) -> NoReturn:
        """Execute `work` in this thread whenever it has the turn. This thread has the first turn."""
        while True:
            try:
                self._work()
            except TurnLost:
                self._wait_until_needed()
                self._watch()

    def has_watch(self) -> bool:
        """Start a watching thread if there is none. Return False if the system does not allow one."""
        if not self._watching:
            try:
                self._start_watching()
            except RuntimeError:
                return False
        return True

    def call(self, function: Callable[[], None], late: Callable[[], None]) -> None:
        """Call a function that may take long. If another thread took the turn before it returned, `late` is added to
        the calls for that thread, and `TurnLost` is raised.
        """
        call = self._call = [True]
        if self._asleep and self._sleep.locked():
            self._sleep.release()
        function()
        try:
            call.pop()
        except IndexError:
            self.late.append(late)
            self._wake()
            raise TurnLost from None

    def _start_watching(self) -> None:
        if self._spare:
            self._spare.pop().release()
        else:
            _thread.start_new_thread(self._serve_after_watching, ())
        self._watching = True

    def _serve_after_watching(self) -> NoReturn:
        self._watch()
        self.serve()

    def _wait_until_needed(self) -> None:
        lock = _thread.allocate_lock()
        lock.acquire()
        self._spare.append(lock)
        lock.acquire()

    def _watch(self) -> None:
        """Wait until this thread has the turn."""
        seen = self._call
        quiet_looks = 0
        while True:
            time.sleep(LONG_SECONDS)
            call = self._call
            if call is not seen:
                quiet_looks = 0
            elif call:
                try:
                    call.pop()
                except IndexError:  # the call returned at this moment
                    continue
                self._watching = False
                return
            else:
                quiet_looks += 1
            if quiet_looks >= MAX_QUIET_LOOKS:
                self._sleep_until_call(call)
                quiet_looks = 0
            seen = call

    def _sleep_until_call(self, last: list[bool]) -> None:
        self._asleep = True
        if self._call is last:  # else the thread that has the turn might not have noticed `_asleep`
            self._sleep.acquire()
        self._asleep = False
