"""A task kind, a terminal status and a live state, as small patches of the source.

A patch holds only what is needed. Each is applied to a copy of the source, where `checks.py` uses what was added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Behind:
    """Insert lines behind the line that has this text."""

    text: str
    lines: str

    def __call__(self, source: str) -> str:
        line = _only_line(source, self.text)
        return source.replace(line, line + self.lines)


@dataclass(frozen=True)
class Before:
    """Insert lines before the line that has this text."""

    text: str
    lines: str

    def __call__(self, source: str) -> str:
        line = _only_line(source, self.text)
        return source.replace(line, self.lines + line)


def _only_line(source: str, text: str) -> str:
    found = [line for line in source.splitlines(keepends=True) if text in line]
    assert len(found) == 1, f"{text!r} is in {len(found)} lines"
    return found[0]


@dataclass(frozen=True)
class Extend:
    """Continue the line that ends with this text."""

    text: str
    more: str

    def __call__(self, source: str) -> str:
        assert source.count(f"{self.text}\n") == 1, f"{self.text!r} does not end one line"
        return source.replace(f"{self.text}\n", f"{self.text}{self.more}\n")


Edit = Behind | Before | Extend
Patch = Mapping[str, str | tuple[Edit, ...]]
"""By the path below `src/timeball`: the text of a new file, or the edits of a file."""


def apply(patch: Patch, package: Path) -> None:
    for name, change in patch.items():
        path = package / name
        if isinstance(change, str):
            assert not path.exists(), f"{name} is there already"
            path.write_text(change)
            continue
        for edit in change:
            path.write_text(edit(path.read_text()))


TASK_KIND: Patch = {
    "domain/task/kinds.py": (
        Behind('TaskKind("python"', '    TaskKind("sleep", "length", "TIME", "Sleep for some time."),\n'),
    ),
    "domain/task/task.py": (
        Behind(
            "        _check_function(self.function)",
            '\n\nclass Sleep(_Task, frozen=True, tag="sleep"):\n    """Sleeps."""\n\n    length: Duration\n\n'
            '    def __post_init__(self) -> None:\n        check_duration("length", self.length, shortest=1)\n',
        ),
        Extend("Task = Http | Shell | Script | Python", " | Sleep"),
    ),
    "executors/sleep.py": '''"""Sleeps."""

from __future__ import annotations

import asyncio

from timeball.domain import duration
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.task.task import Sleep
from timeball.ports.executor import ExecutorAttempt


class SleepExecutor:
    kind = "sleep"

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        assert isinstance(attempt.task, Sleep)
        await asyncio.sleep(duration.parse(attempt.task.length) / SECOND)
        return Succeeded()
''',
    "bootstrap/worker.py": (
        Behind("import ShellExecutor", "from timeball.executors.sleep import SleepExecutor\n"),
        Behind("        python,", "        SleepExecutor(),\n"),
    ),
}

TERMINAL_STATUS: Patch = {
    "domain/run/status.py": (
        Before('CANCELLED = "cancelled"', '    TIMED_OUT = "timed_out"\n'),
        Behind("Status.DEAD: ", "    Status.TIMED_OUT: StatusFacts(Tone.BAD, End.FAILURE),\n"),
    ),
    "domain/run/lifecycle.py": (
        Behind('EXHAUST = "exhaust"', '    TIME_OUT = "time_out"\n'),
        Behind("(State.RUNNING, Event.EXHAUST): ", "    (State.RUNNING, Event.TIME_OUT): Status.TIMED_OUT,\n"),
        Behind(
            "return Transition(Event.GIVE_UP, failure=failure)",
            '            if failure.kind == "timeout" and attempt > policy.max_retries:\n'
            "                return Transition(Event.TIME_OUT, failure=failure)\n",
        ),
    ),
    "domain/diagnosis/reasons.py": (Behind('DEAD = "dead"', '    TIMED_OUT = "timed_out"\n'),),
    "domain/diagnosis/why_ended.py": (
        Behind(
            "code, text = Code.DEAD, ",
            "    elif run.status is Status.TIMED_OUT:\n"
            '        code, text = Code.TIMED_OUT, f"Its timeout ended each attempt ({run.attempt}); the last{error}"\n',
        ),
    ),
}

LIVE_STATE: Patch = {
    "domain/run/status.py": (
        Before('QUEUED = "queued"', '    SHELVED = "shelved"\n'),
        Behind("Status.BLOCKED: ", "    Status.SHELVED: StatusFacts(Tone.ATTENTION),\n"),
    ),
    "domain/run/lifecycle.py": (
        Before('RUNNING = "running"', '    SHELVED = "shelved"\n'),
        Behind('UNBLOCK = "unblock"', '    SHELVE = "shelve"\n    UNSHELVE = "unshelve"\n'),
        Behind(
            "(State.READY, Event.BLOCK): ",
            "    (State.READY, Event.SHELVE): State.SHELVED,\n"
            "    (State.SHELVED, Event.UNSHELVE): State.READY,\n"
            "    (State.SHELVED, Event.CANCEL): Status.CANCELLED,\n",
        ),
        Behind(
            "return Status.SCHEDULED if due_at > now else Status.BLOCKED",
            "        case State.SHELVED:\n            return Status.SCHEDULED if due_at > now else Status.SHELVED\n",
        ),
    ),
    "domain/diagnosis/reasons.py": (Behind('NOT_DUE = "not_due"', '    SHELVED = "shelved"\n'),),
    "domain/diagnosis/run_text.py": (
        Behind(
            "its first tasks are about to start",
            "\n\ndef shelved() -> Reason:\n"
            '    return Reason(code=Code.SHELVED, text="A person shelved it.", unblocks="Take it back.")\n',
        ),
    ),
    "domain/diagnosis/why.py": (
        Behind(
            "import Run",
            "from timeball.domain.run.status import Status\n",
        ),
        Behind(
            "    holds = facts.run.holds",
            "    if facts.run.status is Status.SHELVED:\n        return [run_text.shelved()]\n",
        ),
    ),
    "stores/sql/reading/run_filters.py": (
        Behind("    Status.RETRYING: ", "    Status.SHELVED: f\"(r.state = 'shelved' AND {_DUE_AT} <= {{now}})\",\n"),
        Behind(
            "    State.RUNNING: (",
            "    State.SHELVED: (\n"
            "        \"r.state = 'shelved' AND r.state <> 'running'\", {Status.SCHEDULED, Status.SHELVED}\n"
            "    ),\n",
        ),
    ),
    "stores/sql/queries/runs/shelving.sql": """-- name: shelve_runs
-- Put waiting runs aside.
UPDATE runs SET state = 'shelved' WHERE state = 'ready' AND id IN (SELECT id FROM {batch b: id text}) RETURNING id;

-- name: unshelve_runs
-- Let runs that were put aside wait for a worker again.
UPDATE runs SET state = 'ready' WHERE state = 'shelved' AND id IN (SELECT id FROM {batch b: id text}) RETURNING id;
""",
    "stores/sql/runs/runs.py": (
        Behind('RETRY_NOW = query("retry_now")', 'SHELVE = query("shelve_runs")\nUNSHELVE = query("unshelve_runs")\n'),
        Behind(
            "        return await self._db.write(work) if run_ids else []",
            "\n    async def shelve(self, run_ids: Sequence[str], *, back: bool = False) -> list[str]:\n"
            "        async def work(tx: Tx) -> list[str]:\n"
            "            found = await tx.fetch(UNSHELVE if back else SHELVE, b=list(run_ids))\n"
            "            return [run_id for (run_id,) in found]\n\n"
            "        return await self._db.write(work)\n",
        ),
    ),
    "ports/store/runs.py": (
        Before(
            "async def retry_now(",
            "    async def shelve(self, run_ids: Sequence[str], *, back: bool = False) -> list[str]:\n"
            '        """Put waiting runs aside, or back; those that were changed."""\n        ...\n\n',
        ),
    ),
}
