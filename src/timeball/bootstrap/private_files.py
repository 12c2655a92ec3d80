"""Files that only the user of this process can read: the database holds job specs, output and digests of keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import structlog

from timeball.config import ServerConfig

PRIVATE_UMASK: Final = 0o077
_SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal", ".lock", ".mark")

_log = structlog.get_logger()


def make_new_files_private() -> None:
    """From here on. Jobs that are processes of their own have had the same umask before."""
    os.umask(PRIVATE_UMASK)


def close_files(config: ServerConfig) -> None:
    """Take the rights of other users from what earlier versions made, and warn about a data folder that is open.

    Before the store is opened: SQLite gives a new WAL the rights of its database."""
    key = config.admin_key_file
    ours = [key, key.with_suffix(".last"), config.data_dir / "objects"]
    if (database := config.sqlite_path) is not None:
        ours += [database.with_name(f"{database.name}{suffix}") for suffix in _SQLITE_SUFFIXES]
    if closed := [path.name for path in ours if _close(path)]:
        _log.info("other users could read some files of this server; from now on they cannot", files=", ".join(closed))
    if config.data_dir.stat().st_mode & 0o027:
        _log.warning(
            f"the data folder is open to other users of this machine: chmod 700 {config.data_dir}",
            mode=stat.filemode(config.data_dir.stat().st_mode),
        )


def _close(path: Path) -> bool:
    """Whether others had rights, which they do not have any more."""
    try:
        found = path.stat()
        if found.st_uid != os.geteuid() or not found.st_mode & 0o077:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except OSError:
        return False  # it is not there, or on a disk that is read-only or knows no rights
    return True
