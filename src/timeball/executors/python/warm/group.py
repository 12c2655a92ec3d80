"""The warm children of one tenant and module, and the runs that wait for them."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections import deque
from typing import Final, Protocol

from timeball.domain.run.lifecycle import Failed
from timeball.executors.environment import basic_variables, mark_of
from timeball.executors.guard.guard import Child, GuardDied, ProcessGuard, StartRefused
from timeball.executors.process.pipes import ReadBudget
from timeball.executors.process.process import GUARD_DIED, exit_of, give_access, refused
from timeball.executors.python.process import command, variables
from timeball.executors.python.warm.child import ChildState, WarmChild
from timeball.executors.python.warm.run import WarmRun, failed
from timeball.executors.shortage import beginning
from timeball.ports.executor import OutOfResources

PROGRAM: Final = "timeball.executors.python.warm.child_program"
MAX_RUNS: Final = 1_000
"""Number of runs after which a child ends, so that resources that its functions did not release do not accumulate."""
MAX_GUARD_DEATHS: Final = 3
"""Number of consecutive times that the guard may die while a child starts. After that, a run fails with this error."""


class ChildBounds(Protocol):
    """Bounds the number of children of all groups."""

    def grow(self, group: ChildGroup) -> None:
        """Start children for the runs that wait, now or later."""
        ...

    def must_make_room(self, group: ChildGroup) -> bool:
        """True if a child of this group is to end after its run, because another group waits for its place."""
        ...

    def child_is_idle(self) -> None: ...

    def child_is_gone(self, group: ChildGroup) -> None: ...

    def child_left(self, module: str, what: str) -> None:
        """Called when a child had to end because of what its last run left behind; `what` names it."""
        ...


class ChildGroup:
    """Implements `ChildListener`."""

    def __init__(self, module: str, guard: ProcessGuard, budget: ReadBudget, bounds: ChildBounds) -> None:
        self.seen_ended_runs = 0
        """The number of ended runs when it was last checked whether children have to be added."""
        self.waiting: deque[WarmRun] = deque()
        self.children: set[WarmChild] = set()
        self.idle: list[WarmChild] = []
        """The idle children. The one that was busy last is at the end, and gets the next run."""
        self.ended_runs = 0
        self.start_seconds = math.inf
        """Seconds that the last start of a child took."""
        self.last_start = 0.0
        """The time at which the child that was started last became ready."""
        self._module = module
        self._guard = guard
        self._budget = budget
        self._bounds = bounds
        self._guard_deaths = 0

    @property
    def missing(self) -> int:
        """The number of waiting runs for which no child is starting."""
        return len(self.waiting) - self.count(ChildState.STARTING)

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.children)

    def count(self, *states: ChildState) -> int:
        """Return the number of children in these states, by default in any. Suspended ones are not counted: their slots
        are free for other runs."""
        return sum([(not states or child.state in states) and not child.is_suspended for child in self.children])

    def add(self, run: WarmRun) -> None:
        self.waiting.append(run)
        self._serve()

    def drop(self, run: WarmRun) -> None:
        """End a run: remove it from the waiting runs, or kill the child that executes it."""
        with contextlib.suppress(ValueError):
            self.waiting.remove(run)
        run.kill()

    def start_child(self) -> None:
        """Start a process. If this is not possible and there is no other process, a waiting run ends with the error."""
        try:
            with beginning():
                child = self._new_child()
                try:
                    child.started(self._spawn(child))
                except BaseException:
                    child.not_started()
                    raise
        except Exception as error:
            self._fail_one(error)
        else:
            self.children.add(child)

    def retire(self) -> None:
        """Let all children end, after the runs that they execute."""
        self.idle.clear()
        for child in list(self.children):
            child.end()

    def _serve(self) -> None:
        """Give waiting runs to idle children. If runs are left, ask `ChildBounds` to start more children."""
        while self.waiting and self.idle:
            child = self.idle.pop()
            if child.state is ChildState.IDLE:  # else it has died, and the guard has not reported its end yet
                child.give(self.waiting.popleft())
        if self.waiting:
            self._bounds.grow(self)

    # --- what happens to children ---------------------------------------------------------------------------------

    def child_is_idle(self, child: WarmChild) -> None:
        self._guard_deaths = 0
        self.ended_runs += 1
        if not child.runs and child.start_seconds is not None:
            self.start_seconds, self.last_start = child.start_seconds, child.idle_since
        if child.runs >= MAX_RUNS or self._bounds.must_make_room(self):
            child.end()
        elif self.waiting:
            child.give(self.waiting.popleft())
        else:
            self.idle.append(child)
            self._bounds.child_is_idle()

    def child_refused(self, run: WarmRun, *, changed: bool) -> None:
        if run.wait_again():
            self.waiting.appendleft(run)
        if changed:
            self.retire()
        self._serve()

    def child_is_gone(self, child: WarmChild) -> None:
        self.ended_runs += 1
        self.children.discard(child)
        if child in self.idle:
            self.idle.remove(child)
        if child.start_seconds is None:
            self._start_failed(child)
        elif child.left:
            self._bounds.child_left(self._module, child.left)
        self._bounds.child_is_gone(self)

    def _new_child(self) -> WarmChild:
        folder = tempfile.mkdtemp(prefix="timeball-")
        try:
            return WarmChild(folder, self._guard, self._budget, self)
        except BaseException:
            os.rmdir(folder)
            raise

    def _spawn(self, child: WarmChild) -> Child:
        """Start an interpreter, which imports the module with its first run."""
        user = self._guard.confinement.user
        if user is not None:
            give_access(user, child.folder, child.descriptors[1:3])
        env = {**basic_variables(user), **variables(), "TIMEBALL_PROCESS": child.folder}
        return self._guard.spawn(
            command(PROGRAM),
            env=env,
            cwd=child.folder,
            mark=mark_of(env),
            descriptors=child.descriptors,
            folder=child.folder,
        )

    # --- children that cannot be started ----------------------------------------------------------------------------

    def _start_failed(self, child: WarmChild) -> None:
        """Called when a child ended before it was ready. End the run that waits longest with the reason, unless another
        child will execute it, or the guard died fewer than `MAX_GUARD_DEATHS` times in a row."""
        assert child.exited is not None
        error = child.exited.exception()
        if isinstance(error, GuardDied):
            self._guard_deaths += 1
            if self._guard_deaths >= MAX_GUARD_DEATHS:
                self._fail_one(failed(GUARD_DIED))
        elif isinstance(error, StartRefused):
            try:
                self._fail_one(refused(command(PROGRAM)[0], None, error, self._guard.confinement.user))
            except OutOfResources as shortage:
                self._fail_one(shortage)
        elif self.waiting and not self.children:
            self.waiting.popleft().end(exit_of(child.exited.result(), child.stderr_tail))

    def _fail_one(self, reason: Failed | Exception) -> None:
        """End the run that waits longest, unless another child will execute it."""
        if self.waiting and not self.children:
            run = self.waiting.popleft()
            if isinstance(reason, Failed):
                run.end(reason)
            else:
                run.fail(reason)
