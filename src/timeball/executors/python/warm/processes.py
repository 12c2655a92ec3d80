"""Executes Python functions in child processes that stay warm: a child executes many runs of one tenant and module, one
after the other.

While calls are short, as many children as there are CPUs execute them, because more would only take turns. While calls
are long, children are added up to the maximum.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Final

from timeball.domain.run.lifecycle import Outcome
from timeball.executors.process.pipes import ReadBudget
from timeball.executors.process.process import Exit, Processes
from timeball.executors.python.process import FreshProcesses, without_return
from timeball.executors.python.warm.child import ChildState
from timeball.executors.python.warm.group import ChildGroup
from timeball.executors.python.warm.run import WarmRun, failed
from timeball.ports.executor import ExecutorAttempt
from timeball.tasks import Function

LOOK_INTERVAL: Final = 0.01
"""Seconds between two looks whether children have to be added, while runs wait."""
MAX_WAIT: Final = 0.05
"""Children are added if a run has waited as long as the start of a child takes, and for this many seconds, unless no
run of its group has ended since the last check. A group without a child waits this long for a child of another group to
end."""
IDLE_TIMEOUT: Final = 60.0
"""Seconds after which an idle child ends."""
SURPLUS_TIMEOUT: Final = 2.0
"""Seconds after which an idle child ends, if as many children as there are CPUs were busy later than it."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that children get to end by themselves when the worker ends."""

log = logging.getLogger("timeball.processes")


class PythonProcesses:
    """Implements `ProcessMode`. Functions with `fresh=True`, and jobs with a memory limit, get an interpreter of their
    own for each run.
    """

    def __init__(self, processes: Processes, *, max_children: int, cpus: int | None = None) -> None:
        """`max_children` is the maximum number of warm children. Runs wait if all are busy."""
        self._processes = processes
        self._fresh = FreshProcesses(processes)
        self._budget = ReadBudget()
        self._max_children = max_children
        self._cpus = min(cpus or len(os.sched_getaffinity(0)), max_children) if sys.platform == "linux" else 0
        self._groups: dict[tuple[str, str], ChildGroup] = {}
        self._full_for: set[ChildGroup] = set()
        """Groups with waiting runs that need a child while all places are taken."""
        self._logged: set[tuple[str, str]] = set()
        self._growth: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None

    async def execute(self, attempt: ExecutorAttempt, function: Function) -> Outcome:
        module = function.call.__module__
        if module == "__main__":
            return failed(
                f"task {function.name!r} is defined in the main program; move it to a module to run it in a process"
            )
        resources = attempt.spec.resources
        if function.fresh or not self._cpus or (resources is not None and resources.memory_mb):
            return await self._fresh.execute(attempt, function)
        group = self._group(attempt.tenant, module)
        run = WarmRun(attempt, function)
        group.add(run)
        try:
            ended = await run.ended
        except BaseException:  # the attempt was interrupted while it waited
            group.drop(run)
            raise
        self._processes.explain_closed_folders(attempt, run.stderr_tail)
        return without_return(ended, attempt, function, self._processes.user) if isinstance(ended, Exit) else ended

    async def close(self) -> None:
        """Let all children end, and kill those that take long."""
        for timer in (self._growth, self._expiry):
            if timer is not None:
                timer.cancel()
        children = [child for group in self._groups.values() for child in group.children]
        for group in self._groups.values():
            group.retire()
        for _ in range(2):
            gone = [child.gone for child in children if not child.gone.done()]
            if gone:
                await asyncio.wait(gone, timeout=CLOSE_TIMEOUT)
            for child in children:
                child.kill()

    def _group(self, tenant: str, module: str) -> ChildGroup:
        group = self._groups.get((tenant, module))
        if group is None:
            group = ChildGroup(module, self._processes.guard, self._budget, self)
            self._groups[tenant, module] = group
        return group

    def _count(self, *states: ChildState) -> int:
        return sum([group.count(*states) for group in self._groups.values()])

    # --- the number of children: `ChildBounds` ----------------------------------------------------------------

    def grow(self, group: ChildGroup) -> None:
        missing = group.missing
        if missing <= 0:
            return
        free_cpus = self._cpus - self._count(ChildState.STARTING, ChildState.BUSY)
        for _ in range(min(missing, max(free_cpus, 0 if group.children else 1))):
            self._start(group)
        if group.missing > 0 and self._growth is None:
            self._look_later()

    def _start(self, group: ChildGroup) -> None:
        """Start a child of the group, or make room for one if all places are taken."""
        if self._count() < self._max_children:
            group.start_child()
        else:
            self._full_for.add(group)
            self._end_idle_child()

    def _end_idle_child(self) -> None:
        """End the child that has been idle for the longest time, unless another one is about to end."""
        if self._count(ChildState.ENDING):
            return
        idle = [(group.idle[0].idle_since, group) for group in self._groups.values() if group.idle]
        if idle:
            _, group = min(idle, key=lambda each: each[0])
            group.idle.pop(0).end()

    def must_make_room(self, group: ChildGroup) -> bool:
        if not self._full_for:
            return False
        self._full_for = {each for each in self._full_for if each.waiting}
        since = group.waiting[0].since if group.waiting else asyncio.get_running_loop().time()
        others = [each for each in self._full_for if each is not group and each.waiting[0].since + MAX_WAIT < since]
        return bool(others) and self._count() >= self._max_children

    def child_is_idle(self) -> None:
        if self._expiry is None:
            self._expire_later(SURPLUS_TIMEOUT)

    def child_is_gone(self, group: ChildGroup) -> None:
        for each in self._by_wait():
            self.grow(each)
        self._groups = {key: each for key, each in self._groups.items() if not each.is_empty}

    def child_left(self, module: str, what: str) -> None:
        if (module, what) not in self._logged:
            self._logged.add((module, what))
            log.info("runs of functions in %s end their process, because they leave behind: %s", module, what)

    def _look_later(self) -> None:
        self._growth = asyncio.get_running_loop().call_later(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        """Add children to the groups whose runs wait for long: each time as many as there are."""
        self._growth = None
        now = asyncio.get_running_loop().time()
        for group in self._by_wait():
            is_stuck = group.ended_runs == group.seen_ended_runs
            group.seen_ended_runs = group.ended_runs
            if group.count(ChildState.STARTING):
                continue
            since = max(group.waiting[0].since, group.last_start)
            if not group.children or now - since >= max(LOOK_INTERVAL if is_stuck else MAX_WAIT, group.start_seconds):
                for _ in range(min(len(group.waiting), len(group.children) or 1)):
                    self._start(group)
        if self._by_wait():
            self._look_later()

    def _by_wait(self) -> list[ChildGroup]:
        """Return the groups with waiting runs, the one that waits longest first."""
        waiting = [group for group in self._groups.values() if group.waiting]
        return sorted(waiting, key=lambda group: group.waiting[0].since)

    # --- idle children ------------------------------------------------------------------------------------------------

    def _expire_later(self, seconds: float) -> None:
        self._expiry = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        """End the children that have been idle for long."""
        self._expiry = None
        now = asyncio.get_running_loop().time()
        idle = [(child.idle_since, child, group) for group in self._groups.values() for child in group.idle]
        idle.sort(key=lambda each: each[0], reverse=True)
        for place, (since, child, group) in enumerate(idle):
            if now - since >= (IDLE_TIMEOUT if place < self._cpus else SURPLUS_TIMEOUT):
                group.idle.remove(child)
                child.end()
        if idle:
            self._expire_later(SURPLUS_TIMEOUT)
