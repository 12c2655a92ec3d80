"""The kinds of tasks, in one table. What lists kinds derives from it: validation, `--kinds`, options of the command
line, keywords of the client, labels of workers.

To add a kind: an entry here, a struct in `task.py` and its place in the union `Task`, an executor, and a line in
`bootstrap/worker.py`. The table needs no msgspec, so that `timeball --help` starts without it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class TaskKind(NamedTuple):
    name: str
    """The tag of its struct in `task.py`; also its option on the command line, and its keyword in the client."""
    main_field: str
    """The field that says what to run. The option sets it, and a complaint about a whole task points at it."""
    metavar: str
    """What the option takes."""
    summary: str
    """What the option does, in one sentence."""


TASK_KINDS: Final = (
    TaskKind("http", "url", "URL", "Call a URL; a POST with the parameters by default."),
    TaskKind("shell", "command", "COMMAND", "Run a command with sh -c."),
    TaskKind("script", "script", "FILE", "Run a file of the worker's scripts folder."),
    TaskKind("python", "function", "NAME", "Call a function registered with @timeball.task."),
)

KINDS: Final = tuple(kind.name for kind in TASK_KINDS)
MAIN_FIELDS: Final = {kind.name: kind.main_field for kind in TASK_KINDS}
OFFERED: Final = tuple(sorted(TASK_KINDS, key=lambda kind: kind.name != "shell"))
"""In the order of the command line: the most used kind first."""
