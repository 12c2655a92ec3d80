"""Runs the programs of `bench.kinds.raw`, which measure the raw limits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.deployment import Trouble
from bench.kinds.burst import Burst
from bench.kinds.catalogue import Kind
from bench.kinds.target import Target


class _Printed(Struct):
    done: int = 0
    seconds: float = 0.0
    cpu: dict[str, float] = {}
    starts: list[float] = []


def rate(kind: Kind, seconds: float, target: Target, scripts: Path) -> Burst:
    """Measure for so long how often the work of this kind can be done."""
    found = _run(kind, target, scripts / "noop.sh", "--seconds", str(seconds))
    return Burst(found.done, found.seconds, found.cpu)


def starts(kind: Kind, calls: int, target: Target, scripts: Path) -> list[float]:
    """Return for each of these calls, one after the other, the milliseconds until the work began."""
    return _run(kind, target, scripts / "start.sh", "--one-by-one", str(calls)).starts


def _run(kind: Kind, target: Target, script: Path, *arguments: str) -> _Printed:
    command = [sys.executable, "-m", "bench.kinds.raw", kind.name, "--script", str(script)]
    if kind.name == "http":
        command += ["--url", target.url, "--target", str(target.pid)]
    ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Trouble(f"the raw limit of {kind.name} failed:\n{ended.stderr[-2000:]}")
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=_Printed)
