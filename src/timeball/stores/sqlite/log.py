"""Finds out, before a database is opened, whether its log lost commits that were acknowledged.

SQLite replays its log (`-wal`) up to the first frame whose checksum is wrong, and drops what follows without a word:
after a power loss that is the transaction under way, which was never acknowledged. Two signs tell a loss from that:

* Behind the frame at which SQLite stops, two or more frames of the same generation of the log (the same salts) end a
  transaction, and the checksum of the last of them follows from the frame before it. Every commit is synced before the
  next transaction begins, so only the last one can be incomplete.
* The mark of the last acknowledged commit (`CommitMark`) is later than what the database has come to.

The log is only read. So is the database: a connection that may not write leaves the log as it is when it is closed.
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
"""In the header of a frame that does not end a transaction."""
MAX_LOST_COMMITS: Final = 1_000
"""Commits behind the damage that are counted."""
USUAL_PAGE_SIZE: Final = 4_096
"""Bytes."""
ALLOWED_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_LITTLE_ENDIAN: Final = 0x377F0682
_MARKED_TIME: Final = "SELECT value FROM meta WHERE name = 'clock'"


class Recovered(Struct, frozen=True):
    """What SQLite makes of a database and its log."""

    frames: int
    """Of the log, up to the last commit that can be read."""
    time: Micros | None
    """Of that commit; None: the database is empty."""


class Damage(Struct, frozen=True):
    text: str
    """For the operator: which file, where, and what is lost."""


def beside(database: Path, suffix: str) -> Path:
    return database.with_name(f"{database.name}{suffix}")


def find_damage(database: Path, acknowledged: Micros | None) -> Damage | None:
    """Whether commits are lost; `acknowledged` is the mark of the last one. The caller has the lock on the store."""
    try:
        if database.stat().st_size == 0:
            return None
    except FileNotFoundError:
        return None
    log = beside(database, "-wal")
    is_missing = not log.exists()
    try:
        recovered = _recover(database)
    except sqlite3.Error:  # the database itself is damaged, or no SQLite database: opening it says so
        return None
    try:
        lost = _commits_behind(log, recovered.frames)
    except OSError:  # SQLite cannot read it either, and says so
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
    """Copy a damaged database and what belongs to it; the folder that has the copy."""
    number = 1
    while (folder := beside(database, f".damaged-{number}")).exists():
        number += 1
    folder.mkdir(mode=0o700)
    for suffix in ("", "-wal", "-shm", MARK_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(beside(database, suffix), folder)
    return folder


def _recover(database: Path) -> Recovered:
    """Let SQLite replay the log in memory, and read from its index how far it came."""
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10)
    with contextlib.closing(connection):
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'meta'").fetchone()
        found = connection.execute(_MARKED_TIME).fetchone() if tables else None
        (marked_time,) = found or (None,)
        return Recovered(_indexed_frames(beside(database, "-shm")), marked_time)


def _indexed_frames(index: Path) -> int:
    """How many frames the header of the index counts; none without an index: then there is no log."""
    try:
        header = index.read_bytes()[:20]
    except FileNotFoundError:
        return 0
    return int(struct.unpack_from("=I", header, 16)[0]) if len(header) == 20 else 0


def _page_size(log: Path) -> int:
    """As the header says, unless that is damaged: then the one of Timeball's databases."""
    with log.open("rb") as file:
        (size,) = struct.unpack(">I", file.read(12)[8:])
    size = 65_536 if size == 1 else int(size)
    return size if size in ALLOWED_PAGE_SIZES else USUAL_PAGE_SIZE


def _commits_behind(log: Path, frames: int) -> int:
    """How many frames behind the first so many end a transaction of the log's own generation, up to the last one whose
    checksum follows from the frame before it."""
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
    """Whether the checksum of a frame is right, given the one that the frame before it has."""
    seed = struct.unpack_from(">II", before, 16)
    return _checksum(frame[:8] + page, seed, order) == struct.unpack_from(">II", frame, 16)


def _checksum(data: bytes, seed: tuple[int, ...], order: str) -> tuple[int, int]:
    """SQLite's, of a multiple of eight bytes."""
    first, second = seed
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for odd, even in zip(words, words, strict=True):
        first = (first + odd + second) & 0xFFFFFFFF
        second = (second + even + first) & 0xFFFFFFFF
    return first, second
