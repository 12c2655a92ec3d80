"""Timeball as the first process of a container (PID 1), which inherits every orphan of the container.

Orphans have to be reaped, and a process that reaps all its children takes exit statuses away from the code that waits
for them: the event loop, `subprocess`, functions of jobs. So the first process does nothing but reap and pass signals
on, and Timeball runs in a child of it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from typing import Final, NoReturn

FIRST: Final = 1
NOT_PASSED_ON: Final = frozenset(
    {
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS),
        *(signal.SIGTTIN, signal.SIGTTOU),
    }
)
"""Signals about what this process did itself."""


def stay_as_init() -> None:
    """If this is the first process: go on in a new one, and let this one stay. Call it before there are threads."""
    if os.getpid() != FIRST:
        return
    gc.freeze()
    handled = signal.valid_signals() - NOT_PASSED_ON
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    child = os.fork()
    if child:
        _stay(child, handled)
    # In a group of its own: an interrupt of a terminal would reach it twice, which means to stop at once.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    gc.unfreeze()


def _stay(child: int, handled: set[signal.Signals]) -> NoReturn:
    while True:
        number = signal.sigwait(handled)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            continue
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    os._exit(code if code >= 0 else 128 - code)
