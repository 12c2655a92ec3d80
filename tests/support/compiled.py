"""Modules, compiled once: in a new checkout each process of a test run would compile all of them, at the same time as
the others, and that takes longer than all the rest of collecting tests."""

from __future__ import annotations

import compileall
import contextlib
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite  # pytest has a compiler of its own, for assertions that explain themselves

ROOT = Path(__file__).parents[2]


def compile_all(config: pytest.Config) -> None:
    """Leave beside each module what Python, or pytest, looks for there before it compiles one."""
    if sys.dont_write_bytecode:
        return
    for folder in ("src", "tests/support", "tests/simulation"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    # What pytest calls its own may be called otherwise tomorrow. Then each process compiles for itself again.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        for pattern in ("conftest.py", "test_*.py"):
            for module in ROOT.joinpath("tests").rglob(pattern):
                _compile_tests(module, config)


def _compile_tests(module: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(module)
    compiled = folder / f"{module.stem}{rewrite.PYC_TAIL}"
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(module, compiled) is None:
        source, code = rewrite._rewrite_test(module, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, compiled)
