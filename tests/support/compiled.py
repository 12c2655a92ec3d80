"""Compiles all modules once before the tests. In a new checkout each process of a test run would compile all of them at
the same time as the others, which takes longer than the rest of collecting tests.
"""

from __future__ import annotations

import compileall
import contextlib
import shutil
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite  # the compiler of pytest, which adds details to assertions

ROOT = Path(__file__).parents[2]


def compile_all(config: pytest.Config) -> None:
    """Write compiled files where Python and pytest look for them before they compile a module."""
    if sys.dont_write_bytecode:
        return
    for folder in ("src", "tests/support", "tests/simulation"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    # These names are private to pytest and may change. If they do, each process compiles for itself.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        for pattern in ("conftest.py", "test_*.py"):
            for module in ROOT.joinpath("tests").rglob(pattern):
                _compile_tests(module, config)


def copy_package(source: Path, copy: Path) -> None:
    """Copy a folder of modules with their compiled files, which stay valid, because a copied module has the time and
    the size of the original. A process that imports the copy compiles only what was changed there."""
    shutil.copytree(source, copy)


def _compile_tests(module: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(module)
    compiled = folder / f"{module.stem}{rewrite.PYC_TAIL}"
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(module, compiled) is None:
        source, code = rewrite._rewrite_test(module, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, compiled)
