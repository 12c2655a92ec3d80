"""The keeper: the parent of the guard. It outlives a guard that was killed, and ends the processes that it leaves.

Both are subreapers: a process that detaches itself from its job cannot leave the keeper's descendants, whatever it does
to its session, its environment and its guard. If the keeper is killed instead, the guard notices, kills all and leaves.

Only the standard library is imported here: the guard process uses this module.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from timeball.executors.guard.confiner import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from timeball.executors.guard.process_table import end_children
from timeball.executors.sandbox import job_groups

KEEPER_END_SECONDS = 10.0
"""For killed processes to be gone."""


def split(link: int) -> int:
    """Go on as the guard, in a new process whose parent is the keeper; returns the keeper's process id.

    `link`: the descriptor of the guard's socket, which the keeper closes: the worker sees the end of the guard by it.
    """
    keeper = os.getpid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = os.fork()
    if guard:
        os.close(link)
        _keep(guard)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # wakes the guard up, which looks for its parent then
    return keeper


def _keep(guard: int) -> NoReturn:
    while os.waitpid(-1, 0)[0] != guard:
        pass
    if not end_children(KEEPER_END_SECONDS):
        os._exit(1)
    job_groups.leave()
    os._exit(0)
