"""A thread copies commits from the log into the database file while the writer continues."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from timeball.ports.metrics import StoreMetrics
from timeball.stores.sqlite.checkpoints import EVERY, Checkpoints
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database


class Scene:
    """A database whose writer never moves its log itself."""

    def __init__(self, folder: Path) -> None:
        clock = SteadyClock(lambda: 0, lambda: 0)
        self.database = Database(folder / "timeball.db", clock)
        self.checkpoints = Checkpoints(self.database, StoreMetrics())
        self.writer = self.database.connect(durable=True)
        self.writer.execute("PRAGMA wal_autocheckpoint = 0")
        self.writer.execute("CREATE TABLE written (row)")
        self.rows = 0

    def write(self, rows: int) -> None:
        self.writer.executemany("INSERT INTO written VALUES (?)", [(1,)] * rows)
        self.rows += rows

    def commit(self) -> None:
        self.checkpoints.committed(self.writer.total_changes)

    def in_place(self, folder: Path) -> int:
        """How many rows there are in the file itself, without its log."""
        self.checkpoints._thread.submit(lambda: None).result()  # what was asked for before is done
        alone = shutil.copy(self.database.file, folder / "alone.db")
        with closing(sqlite3.connect(alone)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'written'").fetchone()[0]
            return connection.execute("SELECT count(*) FROM written").fetchone()[0] if tables else 0


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.writer.close()
    scene.checkpoints.close()


def test_the_log_is_moved_once_much_is_written_and_not_before(scene: Scene, tmp_path: Path) -> None:
    scene.commit()
    scene.writer.execute("BEGIN")
    scene.write(EVERY - 1_000)
    scene.writer.execute("COMMIT")
    scene.commit()
    assert scene.in_place(tmp_path) == 0
    scene.writer.execute("BEGIN")
    scene.write(2_000)
    scene.writer.execute("COMMIT")
    scene.commit()
    assert scene.in_place(tmp_path) == scene.rows


def test_a_writer_that_begins_anew_is_followed(scene: Scene, tmp_path: Path) -> None:
    scene.checkpoints.committed(10 * EVERY)
    assert scene.in_place(tmp_path) == 0
    scene.write(10)
    scene.commit()
    assert scene.in_place(tmp_path) == 10


def test_a_database_that_cannot_be_reached_is_the_writers_business(scene: Scene, tmp_path: Path) -> None:
    scene.database.file = tmp_path / "nowhere" / "timeball.db"
    scene.checkpoints.committed(2 * EVERY)
    assert scene.checkpoints._moving is not None
    assert scene.checkpoints._moving.exception() is None


def test_a_thread_that_cannot_be_had_does_not_stop_the_writer(scene: Scene) -> None:
    scene.checkpoints._thread.shutdown()  # it refuses as it does when the system has no more threads
    scene.checkpoints.committed(2 * EVERY)
    assert scene.checkpoints._moving is None
