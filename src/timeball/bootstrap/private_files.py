"""Keeps the files of a server private to its user: the database contains job specs, output and digests of keys."""

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
    """Set the umask so that other users cannot read new files. The guard gives process jobs the same umask."""
    os.umask(PRIVATE_UMASK)


def close_files(config: ServerConfig) -> None:
    """Remove the permissions of other users from files that earlier versions created, and warn about an open data
    folder.

    Call it before the store is opened, because SQLite gives a new WAL the permissions of its database.
    """
    key = config.admin_key_file
    ours = [key, key.with_suffix(".last"), config.data_dir / "objects"]
    if (database := config.sqlite_path) is not None:
        ours += [database.with_name(f"{database.name}{suffix}") for suffix in _SQLITE_SUFFIXES]
    if closed := [path.name for path in ours if _close(path)]:
        _log.info("removed the permissions of other users from files of this server", files=", ".join(closed))
    if config.data_dir.stat().st_mode & 0o027:
        _log.warning(
            f"the data folder is open to other users of this machine: chmod 700 {config.data_dir}",
            mode=stat.filemode(config.data_dir.stat().st_mode),
        )


def _close(path: Path) -> bool:
    """Remove the permissions of other users from a file. Return True if there were any."""
    try:
        found = path.stat()
        if found.st_uid != os.geteuid() or not found.st_mode & 0o077:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except OSError:
        return False  # the file does not exist, or its file system is read-only or has no permissions
    return True
