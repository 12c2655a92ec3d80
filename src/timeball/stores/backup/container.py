"""The file of a backup: a ZIP archive whose comment is the SHA-256 digest of all bytes before the digest.

`timeball.db` is the database, `objects/` has large values and archived runs, `scripts/` the scripts of jobs, and
`manifest.json` describes all of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

import msgspec

from timeball.domain.errors import Conflict, Unavailable
from timeball.ports.store_backup import FORMAT, BackupManifest

DATABASE: Final = "timeball.db"
OBJECTS: Final = "objects"
SCRIPTS: Final = "scripts"
MANIFEST: Final = "manifest.json"
_LABEL: Final = b"sha256:"
_DIGEST_SIZE: Final = 64
"""In hexadecimal digits."""
_CHUNK: Final = 1024 * 1024
_MAX_MANIFEST: Final = 1024 * 1024
_MALFORMED: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)
"""What `zipfile` raises for archives that no backup is."""


class BackupWriter:
    """Writes the archive. It is complete once `seal` has returned."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "x", zipfile.ZIP_DEFLATED, compresslevel=1)

    def add(self, name: str, source: Path) -> bool:
        """Add a file. Return False if it does not exist any more."""
        try:
            opened = source.open("rb")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unavailable(f"{source} cannot be read, so there is no backup: {error.strerror}") from error
        with opened:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (os.fstat(opened.fileno()).st_mode & 0o777) << 16
            with self._zip.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(opened, target, _CHUNK)
        return True

    def seal(self, manifest: BackupManifest) -> None:
        """Add the manifest and the digest, and sync the file."""
        self._zip.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        self._zip.comment = _LABEL + b"0" * _DIGEST_SIZE
        self._zip.close()
        with self._file.open("r+b") as file:
            digest = _digest(file, self._file.stat().st_size - _DIGEST_SIZE)
            file.seek(-_DIGEST_SIZE, os.SEEK_END)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        self._zip.close()


class BackupReader:
    """Reads an archive whose digest was checked. Raise `Conflict` if it is damaged or unknown."""

    def __init__(self, file: Path) -> None:
        try:
            _verify(file)
            self._zip = zipfile.ZipFile(file)
        except FileNotFoundError:
            raise Conflict(f"there is no backup {file}") from None
        except _MALFORMED:
            raise Conflict(f"{file} is not a backup of Timeball") from None
        self.manifest = self._manifest(file)

    def __enter__(self) -> BackupReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def extract(self, folder: Path) -> Iterator[int]:
        """Write all files below the folder, synced. Yield the number of written files after each."""
        entries = [entry for entry in self._zip.infolist() if entry.filename != MANIFEST]
        for number, entry in enumerate(entries, 1):
            path = folder / _checked(entry.filename)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = entry.external_attr >> 16 & 0o777 if entry.filename.startswith(f"{SCRIPTS}/") else 0o600
            try:
                with self._zip.open(entry) as source, path.open("xb") as target:
                    os.fchmod(target.fileno(), mode | 0o600)
                    shutil.copyfileobj(source, target, _CHUNK)
                    target.flush()
                    os.fsync(target.fileno())
            except _MALFORMED as error:
                raise Conflict(f"the backup is damaged: its entry {entry.filename!r} cannot be read: {error}") from None
            yield number

    def extracted_size(self) -> int:
        """Return the size of all files. No entry is extracted beyond the size that it declares."""
        return sum(entry.file_size for entry in self._zip.infolist())

    def __len__(self) -> int:
        return len(self._zip.infolist()) - 1

    def _manifest(self, file: Path) -> BackupManifest:
        try:
            if self._zip.getinfo(MANIFEST).file_size > _MAX_MANIFEST:
                raise Conflict(f"{file} is not a backup of Timeball: its manifest is too large")
            text = self._zip.read(MANIFEST)
            if msgspec.json.decode(text).get("format", 0) > FORMAT:
                raise Conflict(f"{file} was written by a newer Timeball; restore it with that version")
            return msgspec.json.decode(text, type=BackupManifest)
        except (KeyError, AttributeError, TypeError, msgspec.DecodeError, *_MALFORMED):
            raise Conflict(f"{file} is not a backup of Timeball") from None


def _verify(file: Path) -> None:
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        end = len(_LABEL) + _DIGEST_SIZE
        opened.seek(max(0, size - end))
        label, stored = opened.read(len(_LABEL)), opened.read()
        if label != _LABEL:
            raise Conflict(f"{file} is not a backup of Timeball, or its end is missing")
        if _digest(opened, size - _DIGEST_SIZE) != stored:
            raise Conflict(f"the backup {file} is damaged: its checksum does not match its content; use another backup")


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the digest of the first bytes of a file."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(_CHUNK, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def _checked(name: str) -> PurePosixPath:
    """Return the path of an entry, which must not point out of the folder."""
    path = PurePosixPath(name)
    if name != DATABASE and (len(path.parts) < 2 or path.parts[0] not in (OBJECTS, SCRIPTS) or ".." in path.parts):
        raise Conflict(f"the backup has an entry with the name {name!r}, which no backup of Timeball has")
    return path


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
