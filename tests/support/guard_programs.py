"""Variants of the guard program, for tests that change a part of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.sandbox.confinement import Confinement

Guarded = Callable[[Confinement], ProcessGuard]
"""Returns a guard with a confinement."""
_PROGRAM = str(guard_module.PROGRAM)
_VARIANT = """\
import importlib.util
spec = importlib.util.spec_from_file_location("guard_program", {program!r})
guard_program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard_program)
{change}
guard_program.main()
"""
ALWAYS_FORK = "guard_program.make_starter = lambda **settings: None"
"""Starts every job with a fork, as on a system without vfork."""


def variant(path: Path, change: str) -> Path:
    """Write a guard program in which these statements change the module `guard_program`."""
    path.write_text(_VARIANT.format(program=_PROGRAM, change=change))
    path.chmod(0o644)  # whatever the umask of this process is
    return path
