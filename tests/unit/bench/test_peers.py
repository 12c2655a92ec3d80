"""The comparison with other systems measures and reports each of them correctly."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.peers import catalogue, install
from bench.peers.catalogue import PEERS, Peer
from bench.peers.drain import Drain, PeerError, drain
from bench.peers.report import Row, rows

HERE = Path(catalogue.__file__).parent
TIMEBALL = PEERS[0]
OTHER = replace(next(peer for peer in PEERS if peer.name == "bullmq"), keeps_history=True)


def drained(rate: float, *, backlog: int = 100, done: int = 100, calls: int = 100) -> Drain:
    return Drain(
        backlog=backlog, done=done, seconds=done / rate, cpu_seconds=done * 50e-6, calls=calls, loop_ms=(25.0, 26.0)
    )


def row_of(peer: Peer, *drains: Drain, error: str | None = None) -> Row:
    found = {TIMEBALL.name: [drained(1_000)], peer.name: list(drains)}
    return rows([TIMEBALL, peer], found, {peer.name: error} if error else {}, jobs=100)[1]


def test_the_figure_is_the_median_and_its_ratio_to_timeball() -> None:
    row = row_of(OTHER, drained(100), drained(500), drained(250))
    assert row.jobs_per_second == 250
    assert row.timeball_is_faster == {TIMEBALL.name: 4.0}
    assert row.cpu_us_per_job == 50
    assert row.loop_ms == (25.0, 26.0) * 3
    assert row.notes == ()


def test_a_peer_that_failed_once_has_no_figure() -> None:
    row = row_of(OTHER, drained(100), error="bullmq: a worker ended early\nand its log")
    assert (row.jobs_per_second, row.timeball_is_faster) == (None, {})
    assert row.notes == ("bullmq: a worker ended early",)


def test_a_backlog_that_was_not_finished_is_measured_by_what_was_done() -> None:
    row = row_of(OTHER, drained(100, done=40, calls=45))
    assert row.jobs_per_second == 100
    assert row.notes == ("not finished: 40 jobs within 90 s",)


def test_a_smaller_backlog_is_told() -> None:
    row = row_of(replace(OTHER, most=50), drained(100, backlog=50, done=50, calls=50))
    assert row.notes == ("backlog of 50",)


def test_a_peer_that_forgets_its_jobs_is_marked() -> None:
    row = row_of(replace(OTHER, keeps_history=False), drained(100))
    assert row.notes == ("keeps no history of ended jobs, while Timeball keeps each run with its verdict",)


def test_a_call_for_many_jobs_is_marked() -> None:
    row = row_of(replace(OTHER, jobs_per_call=5_000), drained(100, calls=1))
    assert row.notes == ("ONE CALL FOR UP TO 5,000 JOBS",)


def test_jobs_that_were_called_twice_or_never_are_told() -> None:
    row = row_of(OTHER, drained(100), drained(100, calls=101))
    assert row.notes == ("100, 101 calls for 100 jobs",)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_has_a_program_and_says_how_it_is_set_up(peer: Peer) -> None:
    assert (HERE / "programs" / peer.program).exists()
    assert f"`{peer.name}`" in (HERE / "README.md").read_text()
    assert all("==" in package or "@" in package for package in peer.packages), "pinned"


QUEUE = """
import os, signal, sqlite3, sys
import witness

database = sqlite3.connect(os.environ["PEER_STORE"].removeprefix("sqlite:///"), isolation_level=None)
database.execute("PRAGMA synchronous = OFF")
if sys.argv[1] == "fill":
    database.execute("CREATE TABLE queue (job INTEGER)")
    database.executemany("INSERT INTO queue VALUES (?)", [(job,) for job in range(int(sys.argv[2]))])
    witness.called()
else:
    for (job,) in database.execute("SELECT job FROM queue").fetchall():
        witness.called()
        database.execute("DELETE FROM queue WHERE job = ?", (job,))
    signal.pause()
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A peer that is a table and a loop."""
    (tmp_path / "queue.py").write_text(QUEUE)
    (tmp_path / "witness.py").write_text((HERE / "programs" / "witness.py").read_text())
    monkeypatch.setattr(install, "PROGRAMS", tmp_path)
    return replace(TIMEBALL, program="queue.py", left=("SELECT count(*) FROM queue",))


def test_a_backlog_is_drained_until_nothing_is_left_and_only_workers_count(queue: Peer) -> None:
    found = drain(queue, 200, "everysec")
    assert (found.backlog, found.done, found.calls) == (200, 200, 200)
    assert found.seconds > 0
    assert drain(replace(queue, most=50), 200, "everysec").backlog == 50


def test_a_worker_that_ends_early_is_told_with_what_it_printed(queue: Peer) -> None:
    program = install.PROGRAMS / queue.program
    program.write_text(QUEUE.replace("signal.pause()", "").replace("DELETE", "SELECT job"))
    with pytest.raises(PeerError, match="a worker ended early"):
        drain(queue, 10, "everysec")


def test_a_backlog_that_is_not_there_is_told(queue: Peer) -> None:
    (install.PROGRAMS / queue.program).write_text(QUEUE.replace("range(", "range(1, "))
    with pytest.raises(PeerError, match="the backlog was not filled"):
        drain(queue, 10, "everysec")
