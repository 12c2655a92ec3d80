"""The task kinds, in one table. Every list of kinds is derived from it: validation, `--kinds`, options of the command
line, and labels of workers.

To add a kind, add an entry here, a struct in `task.py` and in its union `Task`, an executor, and a line in
`bootstrap/worker.py`. A keyword of the client is a line in `JobOptions` (`client/models/job.py`). The module does not
import msgspec, so that `timeball --help` starts without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class TaskKind(NamedTuple):
    name: str
    """The tag of the struct in `task.py`: `a` to `z` and `_`, at most 50 characters. The option of the command line has
    this name."""
    main_field: str
    """The field that defines what to execute; no two kinds share one. The option sets it, and an error about the whole
    task points to it."""
    metavar: str
    """The placeholder for the value of the option in the help."""
    summary: str
    """The help of the option, in one sentence."""
    pool: str | None = None
    """The pool of slots that bounds how many runs of this kind a worker executes at the same time, if `--slots` is not
    given. None: all slots of the worker, because a run of this kind mostly waits."""


THREADS: Final = "threads"
PROCESSES: Final = "processes"
"""`THREADS` and `PROCESSES` are the names of the slot pools."""

TASK_KINDS: Final = (
    TaskKind("http", "url", "URL", "Call a URL; a POST with the parameters by default."),
    TaskKind("shell", "command", "COMMAND", "Run a command with sh -c.", PROCESSES),
    TaskKind("script", "script", "FILE", "Run a file of the worker's scripts folder.", PROCESSES),
    TaskKind("python", "function", "NAME", "Call a function registered with @timeball.task."),
)
FUNCTION_POOLS: Final[Mapping[str, str | None]] = {"async": None, "thread": THREADS, "process": PROCESSES}
"""The pool of the runs of a Python function, by the mode of the function."""

KINDS: Final = tuple(kind.name for kind in TASK_KINDS)
MAIN_FIELDS: Final = {kind.name: kind.main_field for kind in TASK_KINDS}
OFFERED: Final = tuple(sorted(TASK_KINDS, key=lambda kind: kind.name != "shell"))
"""The kinds in the order of the command line: the most used kind comes first."""
