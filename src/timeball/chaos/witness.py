"""The function of the jobs that chaos submits. It records each execution in a file that no server and no worker
changes.

Workers load it with `--tasks timeball.chaos.witness`. Each process appends to a file of its own in its current folder,
one line per write, so that a killed process leaves complete lines only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from timeball.chaos.history import Sighting
from timeball.domain.instant import of
from timeball.system import wall
from timeball.tasks import Context, task

FUNCTION: Final = "timeball.chaos.witness"
_PREFIX: Final = "witness-"


@task(FUNCTION)
async def witness(ctx: Context, seconds: float = 0.0) -> int:
    """Run for `seconds`. Return the token of the attempt, which the checker compares with that of the stored result."""
    _say("start", ctx)
    await asyncio.sleep(seconds)
    _say("end", ctx)
    return ctx.fencing_token


@cache
def _file(pid: int) -> int:
    return os.open(f"{_PREFIX}{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _say(what: str, ctx: Context) -> None:
    words = (what, ctx.job_id, ctx.run_id, of(ctx.fire_time), ctx.attempt, ctx.fencing_token, wall())
    os.write(_file(os.getpid()), (" ".join(map(str, words)) + "\n").encode())


def sightings(folder: Path, names: dict[int, str]) -> Iterator[Sighting]:
    """Yield the attempts that are recorded in a folder. `names` has the name of the worker of each process id."""
    for path in sorted(folder.glob(f"{_PREFIX}*")):
        worker = names[int(path.name.removeprefix(_PREFIX))]
        lines = [line.split() for line in path.read_text().splitlines()]
        ends = {(run, int(token)): int(at) for what, _, run, _, _, token, at in lines if what == "end"}
        for what, job_id, run_id, fire_time, attempt, token, at in lines:
            if what == "start":
                yield Sighting(
                    job_id=job_id,
                    run_id=run_id,
                    fire_time=int(fire_time),
                    attempt=int(attempt),
                    token=int(token),
                    worker=worker,
                    started_at=int(at),
                    ended_at=ends.get((run_id, int(token))),
                )
