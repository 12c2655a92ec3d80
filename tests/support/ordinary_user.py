"""Runs Timeball as an ordinary user, also when the tests run as root. Also: which features of the kernel the tests
need.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import timeball

IS_ROOT = os.geteuid() == 0
ORDINARY = "nobody"
HAS_LANDLOCK = sys.platform == "linux" and ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 2
NEEDS_LANDLOCK = pytest.mark.skipif(not HAS_LANDLOCK, reason="needs Landlock (ABI 2)")
NEEDS_ROOT = pytest.mark.skipif(not IS_ROOT, reason="needs root")


@cache
def open_python() -> str:
    """Return a Python interpreter that an ordinary user may execute, with all packages that Timeball needs. Skip the
    test if there is none.
    """
    usual = f"/usr/bin/python3.{sys.version_info.minor}"
    for candidate in (sys.executable, usual):
        with contextlib.suppress(OSError):
            run = subprocess.run(
                [candidate, "-c", "import timeball.bootstrap"],
                env={"PYTHONPATH": module_path()},
                capture_output=True,
                timeout=60,
                check=False,
                **_as(ORDINARY if IS_ROOT else None),
            )
            if run.returncode == 0:
                return candidate
    pytest.skip(f"neither {sys.executable} nor {usual} can be run by {ORDINARY}")


def module_path() -> str:
    """Return the paths of Timeball and the packages that it needs, without the standard library of this interpreter."""
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    return os.pathsep.join([str(Path(timeball.__file__).parents[1]), *packages])


def _as(user: str | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user_group(user), "extra_groups": []}


def user_group(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


@contextlib.contextmanager
def shared_folder(place: str) -> Iterator[Path]:
    """Create a folder that every user can enter, unlike the temporary folders of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="timeball-test-", dir=place))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def give(path: Path, user: str | None) -> Path:
    if user is not None and IS_ROOT:
        shutil.chown(path, user, user_group(user))
    return path
