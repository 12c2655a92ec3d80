"""Provides Timeball of an earlier commit, to run it beside that of the working tree."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NoReturn

import pytest

from bench.revisions import ROOT, UnknownRevision, commit_of, source_of

BEFORE: Final = "d9dce18f6e9c2ff507cf0260b2737fd98c1c9649"
"""The last commit before all modules and most classes, statements and loops were moved and renamed. If a name that is
sent or stored was renamed by mistake, that shows between this commit and the current one. Its newest migration is 0015:
a later migration must declare that it works with schema 15, or this constant moves to a commit that it works with.
"""


def source_before(folder: Path, commit: str = BEFORE) -> Path:
    """Return the folder with the package of a commit, for PYTHONPATH. It is created once in `folder`, for all
    processes and test runs.
    """
    try:
        commit_of(commit)
    except (FileNotFoundError, UnknownRevision) as error:
        _leave(error)
    kept = folder / commit
    if not kept.exists():
        with source_of(commit) as source, tempfile.TemporaryDirectory(dir=folder) as unfinished:
            copy = shutil.copytree(source, Path(unfinished) / "src")
            with contextlib.suppress(OSError):  # another process created it first
                copy.rename(kept)
    return kept


def _leave(error: Exception) -> NoReturn:
    reason = absence(error, is_shallow=_is_shallow(), in_ci=os.environ.get("CI", "") == "true")
    if reason.startswith("failed: "):
        pytest.fail(reason)
    pytest.skip(reason)


def absence(error: Exception, *, is_shallow: bool, in_ci: bool) -> str:
    """Return why there is no earlier version to compare with. In CI, a clone without the commit is a failure, unless
    the clone has only the newest commits: then CI has decided to test without history.
    """
    if is_shallow:
        return f"the clone is shallow and lacks {BEFORE[:12]}; `git fetch --unshallow` gets it"
    what = "git is not installed" if isinstance(error, FileNotFoundError) else f"there is no commit {BEFORE[:12]} here"
    return f"failed: {what}, and CI must compare with it" if in_ci else f"{what}: a source archive has no history"


def _is_shallow() -> bool:
    with contextlib.suppress(FileNotFoundError):
        asked = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, check=False, text=True
        )
        return asked.stdout.strip() == "true"
    return False
