"""I1: a log that lost acknowledged commits is refused; one that a crash left incomplete is not.

A copy of the files of an open store is what kill -9 leaves of it."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.builders import TENANT, one_shot
from timeball import system
from timeball.domain.errors import Conflict
from timeball.domain.instant import HOUR
from timeball.ports.store.jobs import JobFilter
from timeball.stores.sqlite.commit_mark import CommitMark
from timeball.stores.sqlite.log import FRAME_HEADER_SIZE, HEADER_SIZE, find_damage
from timeball.stores.sqlite.store import SqliteStore

FRAME = FRAME_HEADER_SIZE + 4_096
JOBS = 6


def store(folder: Path, *, accept_damaged_log: bool = False) -> SqliteStore:
    return SqliteStore(
        folder / "timeball.db",
        wall=system.wall,
        monotonic=system.monotonic,
        accept_damaged_log=accept_damaged_log,
    )


class Crashed:
    """What is left of a store that had acknowledged some jobs, each in a commit of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "timeball.db"
        self.log = folder / "timeball.db-wal"
        self.mark = CommitMark(folder / "timeball.db.mark")

    @property
    def frames(self) -> int:
        return (self.log.stat().st_size - HEADER_SIZE) // FRAME

    def is_damaged(self, *, marked: bool = True) -> bool:
        return find_damage(self.database, self.mark.read() if marked else None) is not None

    def flip(self, offset: int) -> None:
        content = bytearray(self.log.read_bytes())
        content[offset] ^= 0x10
        self.log.write_bytes(content)

    async def jobs(self, *, accept_damaged_log: bool = False) -> int:
        opened = store(self.folder, accept_damaged_log=accept_damaged_log)
        await opened.open()
        try:
            return len((await opened.list_jobs(JobFilter(tenant=TENANT), None, 1_000)).items)
        finally:
            await opened.close()


@pytest.fixture
async def crashed(tmp_path: Path) -> Crashed:
    alive = store(tmp_path / "alive")
    await alive.open()
    # The frames of the opening are in the database by now, as after a while of running.
    await alive.submit([one_shot(alive.now(), at=alive.now() + HOUR)])
    beside = sqlite3.connect(tmp_path / "alive" / "timeball.db")
    beside.execute("PRAGMA wal_checkpoint(RESTART)")
    beside.close()
    for _ in range(JOBS - 1):
        await alive.submit([one_shot(alive.now(), at=alive.now() + HOUR)])
    shutil.copytree(tmp_path / "alive", tmp_path / "crashed")
    await alive.close()
    return Crashed(tmp_path / "crashed")


def commits(crashed: Crashed) -> list[int]:
    """The frames of the current generation that end a transaction."""
    content = crashed.log.read_bytes()
    found = []
    for number in range(crashed.frames):
        at = HEADER_SIZE + number * FRAME
        if content[at + 8 : at + 16] == content[16:24] and content[at + 4 : at + 8] != bytes(4):
            found.append(number)
    return found


async def test_a_store_that_was_killed_opens_with_all_that_was_acknowledged(crashed: Crashed) -> None:
    """Behind its last commit are frames of the generation before, which were moved into the database."""
    assert crashed.frames > commits(crashed)[-1] + 1
    assert not crashed.is_damaged()
    assert await crashed.jobs() == JOBS


async def test_a_flipped_byte_anywhere_in_the_log_is_noticed(crashed: Crashed) -> None:
    """In the page of each frame, and in each part of its header. Without a mark, as an old version or a power loss
    leaves it, all but the last transaction is protected."""
    *_, before_last, last = commits(crashed)
    for number in range(last + 1):
        at = HEADER_SIZE + number * FRAME
        for offset in (0, 5, 9, 17, FRAME_HEADER_SIZE + 2_000):
            crashed.flip(at + offset)
            assert crashed.is_damaged(), (number, offset)
            if number < before_last or (number == before_last and offset > FRAME_HEADER_SIZE):
                assert crashed.is_damaged(marked=False), (number, offset)
            crashed.flip(at + offset)
    assert not crashed.is_damaged()
    for offset in (0, 9, 18, 25):
        crashed.flip(offset)
        assert crashed.is_damaged(), f"header {offset}"
        crashed.flip(offset)
    assert await crashed.jobs() == JOBS


async def test_a_log_that_is_missing_or_too_short_is_noticed(crashed: Crashed) -> None:
    content = crashed.log.read_bytes()
    for number in commits(crashed):
        crashed.log.write_bytes(content[: HEADER_SIZE + number * FRAME + 100])
        assert crashed.is_damaged(), number
    crashed.log.write_bytes(b"")
    with pytest.raises(Conflict, match="ends too early"):
        await crashed.jobs()
    crashed.log.unlink()
    (crashed.folder / "timeball.db-shm").unlink()
    with pytest.raises(Conflict, match=r"timeball\.db-wal is missing"):
        await crashed.jobs()


async def test_a_transaction_that_a_crash_left_incomplete_is_no_damage(crashed: Crashed) -> None:
    """Its frames have the salts of this generation; none of them, or only the last, ends a transaction."""
    content = crashed.log.read_bytes()
    end = HEADER_SIZE + (commits(crashed)[-1] + 1) * FRAME
    begun = bytes(8) + content[16:24] + bytes(8) + bytes(4_096)
    for torn in (begun[:10], begun[:2_000], begun, begun * 3 + begun[:99]):
        crashed.log.write_bytes(content[:end] + torn)
        assert not crashed.is_damaged()
    without_its_first_frame = content[HEADER_SIZE : HEADER_SIZE + FRAME * (commits(crashed)[0] + 1)]
    crashed.log.write_bytes(content[:end] + bytes(FRAME) + without_its_first_frame)
    assert not crashed.is_damaged()
    assert await crashed.jobs() == JOBS


async def test_looking_for_damage_changes_no_file(crashed: Crashed) -> None:
    """A restore may need them as they are."""
    crashed.flip(HEADER_SIZE + 100)
    before = {path.name: path.read_bytes() for path in crashed.folder.iterdir() if path.suffix not in (".db-shm",)}
    for _ in range(2):
        with pytest.raises(Conflict, match="--accept-damaged-log"):
            await crashed.jobs()
    after = {path.name: path.read_bytes() for path in crashed.folder.iterdir() if path.suffix not in (".db-shm",)}
    assert {**before, "timeball.db.lock": b""} == {**after, "timeball.db.lock": b""}


async def test_an_accepted_damage_is_copied_first(crashed: Crashed) -> None:
    crashed.flip(HEADER_SIZE + 100)
    damaged = crashed.log.read_bytes()
    assert await crashed.jobs(accept_damaged_log=True) == 1
    assert (crashed.folder / "timeball.db.damaged-1" / "timeball.db-wal").read_bytes() == damaged
    assert await crashed.jobs() == 1


async def test_a_mark_that_cannot_be_read_keeps_no_store_from_opening(crashed: Crashed) -> None:
    mark = crashed.folder / "timeball.db.mark"
    for content in (b"", mark.read_bytes()[:-1], mark.read_bytes()[:-1] + b"\x00", b"x" * 24):
        mark.write_bytes(content)
        assert crashed.mark.read() is None
        assert not crashed.is_damaged()
    assert await crashed.jobs() == JOBS


async def test_a_store_from_which_everything_was_moved_away_starts_afresh(crashed: Crashed) -> None:
    for path in crashed.folder.glob("timeball.db*"):
        if path.name != "timeball.db.mark":
            path.unlink()
    assert await crashed.jobs() == 0
