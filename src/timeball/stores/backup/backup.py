"""Makes a backup of a SQLite store, online: the database first, and then the objects that it refers to.

Objects are never changed, and none is deleted within three days after the last row that refers to it. So all objects of
the copied rows still exist while the backup is made.
"""

from __future__ import annotations

import contextlib
import os
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
    """Write a backup to a new file. It appears under its name when it is complete and checked. `objects` is the folder
    with large values; None: there is none.
    `version` is that of Timeball. Raise `Conflict` if the file exists or the store cannot be backed up."""
    if file.exists():
        raise Conflict(f"{file} exists already; a backup overwrites nothing")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.absolute().parent) as folder:
            draft, copy = Path(folder, file.name), Path(folder, DATABASE)
            report(TransferProgress("copying the database"))
            snapshot.copy_database(database, copy)
            report(TransferProgress("checking the copy"))
            contents = snapshot.examine(copy)
            writer = BackupWriter(draft)
            with contextlib.closing(writer):
                report(TransferProgress("writing the database"))
                writer.add(DATABASE, copy)
                added = _add_folder(writer, OBJECTS, objects, report)
                missing = 0 if objects is None else sum(1 for key in snapshot.references(copy) if key not in added)
                manifest = BackupManifest(
                    format=FORMAT,
                    version=version,
                    schema=contents.schema,
                    oldest_schema=contents.oldest_schema,
                    store_time=render(contents.store_time),
                    rows=contents.rows,
                    objects=len(added),
                    scripts=len(_add_folder(writer, SCRIPTS, scripts, report)),
                )
                report(TransferProgress("computing the checksum"))
                writer.seal(manifest)
            os.link(draft, file)  # unlike a rename, it overwrites nothing
            sync_folder(file.absolute().parent)
    except FileExistsError:
        raise Conflict(f"{file} exists already; a backup overwrites nothing") from None
    except OSError as error:
        raise Unavailable(f"the backup {file} cannot be written: {error.strerror or error}") from error
    return BackupResult(
        file=str(file),
        size=file.stat().st_size,
        manifest=manifest,
        not_included=not_included,
        missing_objects=missing,
    )


def _add_folder(writer: BackupWriter, name: str, folder: Path | None, report: Report) -> set[str]:
    """Add all files of a folder, if it exists. Return their paths in the folder."""
    paths = [] if folder is None else sorted(_files(folder))
    added: set[str] = set()
    for number, path in enumerate(paths):
        if number % REPORT_EVERY == 0:
            report(TransferProgress(name, number, len(paths)))
        if folder is not None and writer.add(f"{name}/{path}", folder / path):
            added.add(path)
    if paths:
        report(TransferProgress(name, len(paths), len(paths)))
    return added


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix()
