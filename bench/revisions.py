"""The source of a commit, beside the working tree."""

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
    """Git does not know the revision."""


def commit_of(revision: str) -> str:
    """The full hash of a revision."""
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise UnknownRevision(f"{revision!r} names no commit of this repository; write a hash, a branch or a tag")
    return found.stdout.decode().strip()


def long_term_base() -> str:
    """The commit that every later one is compared with."""
    return BASE_FILE.read_text().split()[0]


def subject_of(commit: str) -> str:
    return _git("log", "-1", "--format=%h %s", commit).stdout.decode().strip()


@contextlib.contextmanager
def source_of(commit: str) -> Iterator[Path]:
    """A temporary folder with the commit's `timeball` package, to be put on PYTHONPATH.

    The dependencies are those of this environment for both sides: what is compared is Timeball, not its libraries.
    """
    with tempfile.TemporaryDirectory(prefix="timeball-revision-") as folder:
        packed = _git("archive", "--format=tar", commit, "src")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder) / "src"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
