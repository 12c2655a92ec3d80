"""Makes a backup of a SQLite store, online: the database first, and then the objects that it refers to.

Objects are never changed, and none is deleted within three days after the last row that refers to it. So all objects of
the copied rows still exist while the backup is made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import render
from timeball.ports.store_backup import FORMAT, BackupManifest, BackupResult
from timeball.ports.store_transfer import Report, TransferProgress
from timeball.stores.backup import snapshot
from timeball.stores.backup.container import DATABASE, OBJECTS, SCRIPTS, BackupWriter, sync_folder

DRAFT: Final = ".timeball-backup-"
"""The names of folders with files that are not complete begin with this."""
_LOCK: Final = "lock"
REPORT_EVERY: Final = 100
"""Number of files between two reports of progress."""


def make_backup(
    file: Path,
    database: Path,
    objects: Path | None,
    scripts: Path,
    *,
    not_included: tuple[str, ...],
    version: str,
    report: Report,
) -> BackupResult:
    """Write a backup to a new file. The file gets its name only when the backup is complete and its database was
    checked. `objects` is the folder with large values; None: there is none. `version` is that of Timeball. Raise
    `Conflict` if the file exists or the store cannot be backed up."""
    if os.path.lexists(file):
        raise Conflict(f"{file} exists already; a backup overwrites nothing")
    try:
        with _draft_folder(file.absolute().parent) as folder:
            draft, copy = folder / "backup", folder / DATABASE
            report(TransferProgress("copying the database"))
            snapshot.copy_database(database, copy)
            report(TransferProgress("checking the copy"))
            contents = snapshot.examine(copy)
            writer = BackupWriter(draft)
            with contextlib.closing(writer):
                report(TransferProgress("writing the database"))
                writer.add(DATABASE, copy)
                left_out: list[str] = []
                added = _add_folder(writer, OBJECTS, objects, left_out, report)
                missing = 0 if objects is None else sum(1 for key in snapshot.references(copy) if key not in added)
                manifest = BackupManifest(
                    format=FORMAT,
                    version=version,
                    schema=contents.schema,
                    oldest_schema=contents.oldest_schema,
                    store_time=render(contents.store_time),
                    rows=contents.rows,
                    objects=len(added),
                    scripts=len(_add_folder(writer, SCRIPTS, scripts, left_out, report)),
                )
                report(TransferProgress("computing the checksum"))
                writer.seal(manifest)
            _give_name(draft, file)
            sync_folder(file.absolute().parent)
    except FileExistsError:
        raise Conflict(f"{file} exists already; a backup overwrites nothing") from None
    except OSError as error:
        raise Unavailable(f"the backup {file} cannot be written: {error.strerror or error}") from error
    return BackupResult(
        file=str(file),
        size=file.stat().st_size,
        manifest=manifest,
        not_included=(*not_included, *left_out),
        missing_objects=missing,
    )


@contextlib.contextmanager
def _draft_folder(parent: Path) -> Iterator[Path]:
    """Create a folder for files that are not complete, and remove those of backups that were killed: their locks are
    free."""
    for left in parent.glob(f"{DRAFT}*"):
        with contextlib.suppress(OSError), (left / _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=parent) as folder, Path(folder, _LOCK).open("wb") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(folder)


def _give_name(draft: Path, file: Path) -> None:
    """Give the complete file its name. Raise `FileExistsError` if another file has it."""
    try:
        os.link(draft, file)  # unlike a rename, it overwrites nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(file):
            raise FileExistsError from None
        draft.rename(file)


def _add_folder(writer: BackupWriter, name: str, folder: Path | None, left_out: list[str], report: Report) -> set[str]:
    """Add all files of a folder, if it exists. Return their paths in the folder. `left_out` gets the places that cannot
    be in a backup."""
    paths = [] if folder is None else sorted(_files(folder, left_out))
    added: set[str] = set()
    for number, path in enumerate(paths):
        if number % REPORT_EVERY == 0:
            report(TransferProgress(name, number, len(paths)))
        if folder is not None and writer.add(f"{name}/{path}", folder / path):
            added.add(path)
    if paths:
        report(TransferProgress(name, len(paths), len(paths)))
    return added


def _files(folder: Path, left_out: list[str]) -> Iterator[str]:
    for parent, folders, files in os.walk(folder, onerror=_unreadable):
        for path in (Path(parent, each) for each in (*folders, *files)):
            name = path.relative_to(folder).as_posix()
            if (path.is_symlink() and path.is_dir()) or name != os.fsencode(name).decode("utf-8", "replace"):
                left_out.append(os.fsencode(path).decode("utf-8", "backslashreplace"))
            elif path.is_file():
                yield name


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise Unavailable(f"{error.filename} cannot be read, so there is no backup: {error.strerror}") from error
