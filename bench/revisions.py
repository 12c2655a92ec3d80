"""Provides the source of a commit, beside the working tree."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BASE_FILE = ROOT / "bench/BASE"


class UnknownRevision(Exception):
    """Raised if git does not know the revision."""


def commit_of(revision: str) -> str:
    """Return the full hash of a revision."""
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise UnknownRevision(f"{revision!r} names no commit of this repository; write a hash, a branch or a tag")
    return found.stdout.decode().strip()


def long_term_base() -> str:
    """Return the commit with which every later one is compared."""
    return BASE_FILE.read_text().split()[0]


def subject_of(commit: str) -> str:
    return _git("log", "-1", "--format=%h %s", commit).stdout.decode().strip()


@contextlib.contextmanager
def source_of(commit: str) -> Iterator[Path]:
    """Yield a temporary folder with the `timeball` package of a commit, for PYTHONPATH.

    Both sides use the dependencies of this environment: the comparison is between versions of Timeball, not of its
    libraries.
    """
    with tempfile.TemporaryDirectory(prefix="timeball-revision-") as folder:
        packed = _git("archive", "--format=tar", commit, "src")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder) / "src"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
