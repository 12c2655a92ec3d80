"""I17: runs of higher priority start first, and yet no run starves, however much work of higher priority arrives."""

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.processes import Api, running_server, running_up, start_worker, until

CREDIT = dt.timedelta(milliseconds=500)
LEVELS = {"low": 2, "medium": 5, "high": 8}
ONE_SLOT, SMALL_CREDIT = ("--slots", "1"), ("--priority-credit", "500ms")
WAITING = 6
"""High runs that wait at any time."""
LAST_YEAR = (dt.datetime.now(dt.UTC) - dt.timedelta(days=365)).isoformat()

pytestmark = pytest.mark.timeout(300)


class Start(msgspec.Struct, frozen=True):
    priority: str
    submitted: dt.datetime
    started: dt.datetime
    fire: dt.datetime

    @property
    def rank(self) -> dt.datetime:
        return self.submitted - LEVELS[self.priority] * CREDIT


class Stream:
    """High-priority work without an end: whenever one starts, another is submitted."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api, self._witness = api, folder / "witness"
        self._witness.touch()
        self._submitted = 0

    def submit(self, priority: str, **more: Any) -> None:
        command = f"echo $TIMEBALL_RUN_ID {priority} >> {self._witness}; sleep 0.1"
        self._api.create({"task": {"kind": "shell", "command": command}, "priority": priority, **more})

    def started(self, priority: str) -> list[str]:
        """Runs of a priority, in the order of their starts."""
        words = [line.split() for line in self._witness.read_text().splitlines()]
        return [run_id for run_id, of in words if of == priority]

    def flows(self) -> bool:
        """Keep it flowing; answers True, to be waited for together with something else."""
        while self._submitted < len(self.started("high")) + 1 + WAITING:
            self.submit("high")
            self._submitted += 1
        return True

    def starts(self) -> list[Start]:
        """What was started, in that order."""
        moment = dt.datetime.fromisoformat
        found = []
        for line in self._witness.read_text().splitlines():
            run_id, priority = line.split()
            run = self._api.call("GET", f"/v1/runs/{run_id}")
            started = run["startTime"] or run["createdAt"]
            found.append(Start(priority, moment(run["createdAt"]), moment(started), moment(run["fireTime"])))
        return found


def flood(api: Api, folder: Path) -> list[Start]:
    """A stream that fills the only slot, with a low run and some of last year's in it."""
    stream = Stream(api, folder)
    until(lambda: stream.flows() and len(stream.started("high")) >= 3, "the stream to flow")
    stream.submit("low")
    for _ in range(3):
        stream.submit("medium", schedule={"type": "date", "expression": LAST_YEAR})
    until(lambda: stream.flows() and stream.started("low"), "the low run to start")
    enough = len(stream.started("high")) + 3
    until(lambda: stream.flows() and len(stream.started("high")) >= enough, "the stream to flow on")
    return stream.starts()


def flood_up(folder: Path) -> list[Start]:
    with running_up(folder, None, *ONE_SLOT, *SMALL_CREDIT) as (_, api):
        api.await_workers(1)
        return flood(api, folder)


def flood_server_and_worker(folder: Path, dsn: str) -> list[Start]:
    with (
        running_server(folder, dsn, None, *SMALL_CREDIT) as (_, api),
        start_worker(folder, api, name="only", slots=1),
    ):
        api.await_workers(1)
        return flood(api, folder)


def test_nobody_starves_and_old_dates_give_no_rank(tmp_path: Path, postgres_dsn: str) -> None:
    folders = [tmp_path / name for name in ("sqlite", "postgres")]
    for folder in (tmp_path, *folders):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        houses = [pool.submit(flood_up, folders[0]), pool.submit(flood_server_and_worker, folders[1], postgres_dsn)]
        seen = {folder.name: house.result() for folder, house in zip(folders, houses, strict=True)}
    for store, starts in seen.items():
        (low,) = [at for at, start in enumerate(starts) if start.priority == "low"]
        waited = starts[low].started - starts[low].submitted
        print(f"{store}: {low} runs before the low one, which waited {waited.total_seconds():.1f} s")
        for check in CHECKS:
            check(starts)


def all_went_by_rank(starts: list[Start]) -> None:
    """Nobody started before one of better rank that was there when the one before started, so when it was chosen."""
    for at in range(1, len(starts)):
        there = [later for later in starts[at + 1 :] if later.submitted < starts[at - 1].started]
        assert all(starts[at].rank <= later.rank for later in there)


def the_low_one_was_overtaken_only_within_its_bound(starts: list[Start]) -> None:
    (low,) = [start for start in starts if start.priority == "low"]
    before = [start for start in starts[: starts.index(low)] if start.priority == "high"]
    after = starts[starts.index(low) + 1 :]
    assert all(start.submitted < low.submitted + (8 - 2) * CREDIT for start in before)
    assert any(start.submitted > low.submitted for start in before), "it had to wait"
    assert any(start.submitted < low.started for start in after if start.priority == "high"), (
        "others had to wait for it"
    )


def last_years_did_not_outrank_fresh_ones(starts: list[Start]) -> None:
    old = [start for start in starts if start.priority == "medium"]
    assert len(old) == 3
    for start in old:
        assert start.fire < start.submitted - dt.timedelta(days=300)
        before = starts[: starts.index(start)]
        assert any(high.submitted > start.submitted for high in before if high.priority == "high")


CHECKS: tuple[Callable[[list[Start]], None], ...] = (
    all_went_by_rank,
    the_low_one_was_overtaken_only_within_its_bound,
    last_years_did_not_outrank_fresh_ones,
)
