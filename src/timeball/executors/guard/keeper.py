"""The keeper: the parent process of the guard. If the guard is killed, the keeper ends the processes of jobs.

Both are subreapers: a process that detaches itself from its job stays a descendant of the keeper, even if it changes
its session and environment or kills its guard. If the keeper is killed instead, the guard notices it, kills all
processes and exits.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from timeball.executors.guard.confiner import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from timeball.executors.guard.process_table import end_children
from timeball.executors.sandbox import job_groups

KEEPER_END_SECONDS = 10.0
"""Maximum number of seconds that the keeper waits for killed processes to end."""


def split(link: int) -> int:
    """Fork. Return in the child, which becomes the guard, with the process id of its parent, the keeper.

    `link` is the descriptor of the guard's socket. The keeper closes it, so that the worker notices the end of the
    guard.
    """
    keeper = os.getpid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = os.fork()
    if guard:
        os.close(link)
        _keep(guard)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # wakes the guard, which then checks its parent
    return keeper


def _keep(guard: int) -> NoReturn:
    while os.waitpid(-1, 0)[0] != guard:
        pass
    if not end_children(KEEPER_END_SECONDS):
        os._exit(1)
    job_groups.leave()
    os._exit(0)
