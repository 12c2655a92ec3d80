"""Restores a backup into an empty data folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from timeball.domain.errors import Conflict, Unavailable
from timeball.ports.store_backup import BackupManifest, RestoreResult
from timeball.ports.store_transfer import Report, TransferProgress
from timeball.stores.backup import snapshot
from timeball.stores.backup.container import DATABASE, OBJECTS, SCRIPTS, BackupReader, sync_folder
from timeball.stores.sql.migrate import known, refuse_newer
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database

UNFINISHED: Final = ".restoring"
"""The folder for files that are not checked yet. One that an interrupted restore left is removed."""
_IGNORED: Final = {UNFINISHED, f"{DATABASE}.lock", "lost+found"}


def restore_backup(file: Path, data_dir: Path, report: Report) -> RestoreResult:
    """Check the backup completely, and move its files into the data folder, the database last. Raise `Conflict` if the
    backup is damaged or too new, or if the folder is not empty."""
    try:
        _require_empty(data_dir)
        report(TransferProgress("checking the checksum"))
        with BackupReader(file) as backup:
            manifest = backup.manifest
            refuse_newer([manifest.schema], manifest.oldest_schema, known())
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _unfinished(data_dir) as unfinished:
                _require_space(data_dir, backup.extracted_size())
                for done in backup.extract(unfinished):
                    report(TransferProgress("files", done, len(backup)))
                report(TransferProgress("checking the database"))
                _check(unfinished / DATABASE, manifest, file)
                snapshot.raise_tokens(unfinished / DATABASE)
                for name in (SCRIPTS, OBJECTS, DATABASE):
                    if (unfinished / name).exists():
                        (unfinished / name).rename(data_dir / name)
                sync_folder(data_dir)
    except OSError as error:
        raise Unavailable(f"the backup cannot be restored into {data_dir}: {error.strerror or error}") from error
    return RestoreResult(file=str(file), data_dir=str(data_dir), manifest=manifest)


@contextlib.contextmanager
def _unfinished(data_dir: Path) -> Iterator[Path]:
    """Create the folder for files that are not checked yet. No server starts on the data folder until it is removed,
    because its new database would be overwritten."""
    lock = Database(data_dir / DATABASE, SteadyClock(lambda: 0, lambda: 0))
    lock.lock()
    try:
        _require_empty(data_dir)
        folder = data_dir / UNFINISHED
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.unlock()


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise Unavailable(
            f"the backup needs {needed / 1024**2:,.0f} MiB in {folder}, where {free / 1024**2:,.0f} MiB are free"
        )


def _require_empty(folder: Path) -> None:
    if not folder.exists():
        return
    found = sorted(path.name for path in folder.iterdir() if path.name not in _IGNORED)
    if found:
        shown = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        raise Conflict(
            f"the data folder {folder} is not empty: it contains {shown}. Restore into an empty one, or move these"
            " files to another folder first"
        )


def _check(database: Path, manifest: BackupManifest, file: Path) -> None:
    if not database.exists():
        raise Conflict(f"the backup {file} has no database")
    contents = snapshot.examine(database)
    if contents.rows != dict(manifest.rows) or contents.schema != manifest.schema:
        raise Conflict(f"the backup {file} is damaged: its rows are not those that its manifest counts")
