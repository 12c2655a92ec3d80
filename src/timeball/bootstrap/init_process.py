"""Runs Timeball in a child if it is the first process of a container (PID 1), which inherits all orphans of the
container.

Orphans have to be reaped, and a process that reaps all its children takes exit statuses away from the code that waits
for them: the event loop, `subprocess`, functions of jobs. So the first process only reaps and forwards signals, and
Timeball runs in a child of it.
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
"""Signals that the kernel sends about an action of this process itself. They are not forwarded."""


def stay_as_init() -> None:
    """If this is the first process of a container (PID 1), fork, and return in the child only; else do nothing. Call it
    before threads are started."""
    if os.getpid() != FIRST:
        return
    gc.freeze()
    handled = signal.valid_signals() - NOT_PASSED_ON
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    child = os.fork()
    if child:
        _stay(child, handled)
    # A process group of its own: otherwise an interrupt of the terminal would reach the child twice, and the second one
    # stops it at once.
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
