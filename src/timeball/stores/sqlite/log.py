"""Checks, before a database is opened, whether its log lost commits that were acknowledged.

SQLite replays its log (`-wal`) up to the first frame with a wrong checksum, and silently drops what follows. After a
power loss that is the unfinished transaction, which was never acknowledged. Two signs show a real loss:

* After the frame at which SQLite stops, two or more frames of the same generation of the log (the same salts) end a
  transaction, and the checksum of the last of them follows from the frame before it. Every commit is synced before the
  next transaction begins, so only the last one can be incomplete.
* The mark of the last acknowledged commit (`CommitMark`) is later than the time in the database.

The log is only read. The database is opened read-only, because such a connection leaves the log unchanged when it is
closed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros, render
from timeball.stores.sqlite.commit_mark import MARK_SUFFIX

HEADER_SIZE: Final = 32
FRAME_HEADER_SIZE: Final = 24
NO_COMMIT: Final = bytes(4)
"""The field in the header of a frame that does not end a transaction."""
MAX_LOST_COMMITS: Final = 1_000
"""Maximum number of lost commits that are counted."""
USUAL_PAGE_SIZE: Final = 4_096
"""Page size of the databases of Timeball, in bytes."""
ALLOWED_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_LITTLE_ENDIAN: Final = 0x377F0682
_MARKED_TIME: Final = "SELECT value FROM meta WHERE name = 'clock'"


class Recovered(Struct, frozen=True):
    """The state of a database after SQLite has replayed its log."""

    frames: int
    """Number of frames of the log up to the last readable commit."""
    time: Micros | None
    """The time of that commit; None if the database is empty."""


class Damage(Struct, frozen=True):
    text: str
    """A message for the operator: the file, the position, and what is lost."""


def beside(database: Path, suffix: str) -> Path:
    return database.with_name(f"{database.name}{suffix}")


def find_damage(database: Path, acknowledged: Micros | None) -> Damage | None:
    """Return the damage if commits are lost; None otherwise. `acknowledged` is the mark of the last commit. The caller
    holds the lock on the store."""
    try:
        if database.stat().st_size == 0:
            return None
    except FileNotFoundError:
        return None
    log = beside(database, "-wal")
    is_missing = not log.exists()
    try:
        recovered = _recover(database)
    except sqlite3.Error:  # the database itself is damaged, or is no SQLite database: opening it reports that
        return None
    try:
        lost = _commits_behind(log, recovered.frames)
    except OSError:  # SQLite cannot read it either, and reports that
        return None
    if lost >= 2:
        at = HEADER_SIZE + recovered.frames * (FRAME_HEADER_SIZE + _page_size(log))
        count = f"at least {lost}" if lost == MAX_LOST_COMMITS else f"{lost}"
        return Damage(
            f"{log} is damaged in frame {recovered.frames + 1}, at byte {at} or soon after: {count} acknowledged"
            " commits behind that cannot be read"
        )
    if acknowledged is not None and (recovered.time or 0) < acknowledged:
        has = "has no commits" if recovered.time is None else f"ends with the commit of {render(recovered.time)}"
        state = "is missing" if is_missing else "ends too early"
        return Damage(
            f"{log} {state}: {database.name} {has}, and commits up to {render(acknowledged)} were acknowledged"
        )
    return None


def keep_copy(database: Path) -> Path:
    """Copy a damaged database and the files that belong to it. Return the folder with the copy."""
    number = 1
    while (folder := beside(database, f".damaged-{number}")).exists():
        number += 1
    folder.mkdir(mode=0o700)
    for suffix in ("", "-wal", "-shm", MARK_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(beside(database, suffix), folder)
    return folder


def _recover(database: Path) -> Recovered:
    """Let SQLite replay the log in memory, and read from its index how many frames it replayed."""
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10)
    with contextlib.closing(connection):
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'meta'").fetchone()
        found = connection.execute(_MARKED_TIME).fetchone() if tables else None
        (marked_time,) = found or (None,)
        return Recovered(_indexed_frames(beside(database, "-shm")), marked_time)


def _indexed_frames(index: Path) -> int:
    """Return the number of frames in the header of the index; 0 without an index, because then there is no log."""
    try:
        header = index.read_bytes()[:20]
    except FileNotFoundError:
        return 0
    return int(struct.unpack_from("=I", header, 16)[0]) if len(header) == 20 else 0


def _page_size(log: Path) -> int:
    """Return the page size in the header of the log. If the header is damaged, return the one that Timeball uses."""
    with log.open("rb") as file:
        (size,) = struct.unpack(">I", file.read(12)[8:])
    size = 65_536 if size == 1 else int(size)
    return size if size in ALLOWED_PAGE_SIZES else USUAL_PAGE_SIZE


def _commits_behind(log: Path, frames: int) -> int:
    """Count the frames after the first `frames` that end a transaction of the same generation of the log, up to the
    last one with a checksum that follows from the frame before it."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        header = os.pread(descriptor, HEADER_SIZE, 0)
        if len(header) < HEADER_SIZE:
            return 0
        (magic,) = struct.unpack_from(">I", header)
        order = "<" if magic == _LITTLE_ENDIAN else ">"
        salts, page_size = header[16:24], _page_size(log)
        if _checksum(header[:24], (0, 0), order) != struct.unpack_from(">II", header, 24):
            salts = os.pread(descriptor, FRAME_HEADER_SIZE, HEADER_SIZE)[8:16]
        size = FRAME_HEADER_SIZE + page_size
        before, ends, lost = b"", 0, 0
        for number in range(frames, (os.fstat(descriptor).st_size - HEADER_SIZE) // size):
            at = HEADER_SIZE + number * size
            frame = os.pread(descriptor, FRAME_HEADER_SIZE, at)
            if frame[8:16] == salts and frame[4:8] != NO_COMMIT:
                ends += 1
                page = os.pread(descriptor, page_size, at + FRAME_HEADER_SIZE)
                if before and _follows(frame, page, before, order):
                    lost = ends
            if lost >= MAX_LOST_COMMITS:
                break
            before = frame
        return lost
    finally:
        os.close(descriptor)


def _follows(frame: bytes, page: bytes, before: bytes, order: str) -> bool:
    """True if the checksum of a frame follows from the frame before it."""
    seed = struct.unpack_from(">II", before, 16)
    return _checksum(frame[:8] + page, seed, order) == struct.unpack_from(">II", frame, 16)


def _checksum(data: bytes, seed: tuple[int, ...], order: str) -> tuple[int, int]:
    """Return the checksum of SQLite for a multiple of 8 bytes."""
    first, second = seed
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for odd, even in zip(words, words, strict=True):
        first = (first + odd + second) & 0xFFFFFFFF
        second = (second + even + first) & 0xFFFFFFFF
    return first, second
