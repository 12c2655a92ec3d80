"""`bench mixed`: which jobs are submitted when, how their starts are read, and what makes it fail."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench import database, processes
from bench.database import Database
from bench.deployment import Deployment, Trouble
from bench.kinds.target import Target
from bench.measurements import Findings, Row, Table
from bench.mixed import filler
from bench.mixed.arrivals import Arrivals, Submitter
from bench.mixed.load import Result
from bench.mixed.mix import MIXED, Mix, shares
from bench.mixed.starts import lateness
from bench.sections.mixed import cpu_figures, lateness_figures, memory_figures, rate_figures

FIRST = 1_800_000_000_000_000
ARRIVALS = Arrivals(FIRST, rate=333.0, jobs=200, kinds=MIXED)


def test_the_mix_has_the_shares_that_it_is_said_to_have() -> None:
    assert shares(MIXED) == {"http": 0.4, "thread": 0.3, "shell": 0.1, "async": 0.2}
    tasks = Mix(MIXED, Target("http://127.0.0.1:9/", 1)).tasks
    assert [task["kind"] for task in tasks[:6]] == ["http", "python", "python", "http", "python", "shell"]
    assert tasks[0]["url"] == "http://127.0.0.1:9/"


# --- arrivals -----------------------------------------------------------------------------------------------------


def test_every_job_is_in_one_batch_and_has_an_instant_of_its_own() -> None:
    assert [number for batch in ARRIVALS.batches for number in batch] == list(range(200))
    instants = ARRIVALS.due_instants
    assert len(set(instants)) == 200
    assert instants == sorted(instants)
    assert instants[-1] - instants[0] == pytest.approx(199 / 333.0 * 1e6, abs=2)


def test_a_batch_has_the_jobs_of_a_tenth_of_a_second() -> None:
    spans = [ARRIVALS.due(batch[-1]) - ARRIVALS.due(batch[0]) for batch in ARRIVALS.batches]
    assert max(spans) <= 100_000


def test_a_job_has_the_task_of_its_turn_and_is_due_at_its_instant() -> None:
    mix = Mix(MIXED, Target("http://127.0.0.1:9/", 1))
    submitter = Submitter(cast(Deployment, None), ARRIVALS, mix.tasks, lead=1.0)
    jobs = json.loads(submitter.body(range(15, 18)))
    assert [job["task"] for job in jobs] == [mix.tasks[5], mix.tasks[6], mix.tasks[7]]
    assert jobs[0]["schedule"] == {"type": "date", "expression": "2027-01-15T08:00:00.045045+00:00"}


# --- how the starts are read --------------------------------------------------------------------------------------


class Stored:
    """A database with a history."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE history (fire_time INTEGER, result TEXT)")

    def add(self, due: int, result: Any) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("INSERT INTO history VALUES (?, ?)", (due, json.dumps(result)))

    @contextmanager
    def database(self) -> Iterator[Database]:
        with database.sqlite(self.path) as opened:
            yield opened


TEN = replace(ARRIVALS, jobs=10)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """The runs of ten jobs. The job with number n starts n milliseconds late."""
    found = Stored(tmp_path / "history.db")
    for number in reversed(range(10)):
        started = TEN.due(number) * 1_000 + number * 1_000_000
        found.add(TEN.due(number), {"status": 200, "body": started} if TEN.kind(number) == "http" else started)
    return found


def read(stored: Stored) -> dict[str, list[float]]:
    return lateness(cast(Deployment, stored), TEN)


def test_the_lateness_of_each_job_counts_for_its_kind(stored: Stored) -> None:
    assert read(stored) == {"http": [0, 3, 6, 9], "thread": [1, 4, 7], "async": [2, 8], "shell": [5]}


def test_runs_of_other_loads_do_not_count(stored: Stored) -> None:
    stored.add(FIRST - 1, 0)
    stored.add(TEN.due(10), 0)
    assert sum(map(len, read(stored).values())) == 10


def test_a_job_without_a_run_is_an_error(stored: Stored) -> None:
    with pytest.raises(Trouble, match="200 jobs were submitted, and the history has 10 runs"):
        lateness(cast(Deployment, stored), ARRIVALS)


def test_a_second_run_of_a_job_is_an_error(stored: Stored) -> None:
    stored.add(TEN.due(4), TEN.due(4) * 1_000)
    with pytest.raises(Trouble, match="that no job asked for"):
        read(stored)


# --- what is judged -----------------------------------------------------------------------------------------------


def result(late: dict[str, list[float]], **cores: float) -> Result:
    return Result(sum(map(len, late.values())), 1.0, late, cores or {"server": 0.5}, [])


def is_kept(rows: dict[str, Any]) -> bool:
    table = Table("Some", {}, [Row({"row": name}, figures) for name, figures in rows.items()])
    return Findings("mixed", "Some", "2026-03-01T00:00:00+00:00", {}, [table], []).good


ALONE = result({"async": [2.0] * 98 + [10.0] * 2})


@pytest.mark.parametrize(
    ("late", "kept"),
    [
        ([1.0] * 98 + [30.0, 30.0], True),
        ([1.0] * 98 + [30.1, 30.1], False),
        ([1.0] * 199 + [2_000.0], True),
        ([1.0] * 199 + [2_000.1], False),
    ],
)
def test_it_fails_if_the_p99_is_more_than_3_times_that_of_coroutines_or_a_job_more_than_2_s_late(
    late: list[float], kept: bool
) -> None:
    assert is_kept(lateness_figures(result({"http": late}), [ALONE, ALONE])) is kept


def test_it_fails_if_jobs_are_accepted_after_they_were_due() -> None:
    found = result({"http": [1.0]})
    assert is_kept({"load": rate_figures(2.0, found)})
    assert not is_kept({"load": rate_figures(2.0, replace(found, accepted_late=1))})


def test_all_kinds_are_judged_together_and_shown_one_by_one() -> None:
    rows = lateness_figures(result({"http": [1.0] * 999, "shell": [1_000.0]}), [ALONE])
    assert list(rows) == ["all", "http", "shell", "async alone, same CPU use"]
    assert rows["all"]["p99"].median == 1
    assert rows["shell"]["p99 × async alone"].median == 100
    assert is_kept(rows)


def test_it_fails_if_coroutines_alone_used_more_cpu_than_the_load() -> None:
    mixed = result({"async": [1.0]}, server=0.5, children=0.3, load=0.9)
    assert mixed.own_cores == 0.5
    assert mixed.total_cores == 0.8
    assert is_kept(cpu_figures(mixed, [result({"async": [1.0]}, server=0.5, fillers=0.38, load=0.1)]))
    assert not is_kept(cpu_figures(mixed, [result({"async": [1.0]}, server=0.6, fillers=0.29)]))


@pytest.mark.parametrize(("last", "kept"), [(102.0, True), (102.1, False), (50.0, True)])
def test_it_fails_if_a_process_grows_after_the_first_minute(last: float, kept: bool) -> None:
    samples = [{"server": used, "guard": 8.0} for used in (10.0, 20.0, 100.0, 100.0, 500.0, last, last)]
    rows = memory_figures(samples, settled=2)
    assert rows["server"]["second minute"].median == 100
    assert is_kept(rows) is kept


def test_programs_use_the_part_of_the_cpu_that_is_asked_for() -> None:
    with filler.filling(0.5 * filler.CORES) as pids:
        began, spent = time.monotonic(), sum(map(processes.cpu_seconds, pids))
        time.sleep(0.5)
        used = sum(map(processes.cpu_seconds, pids)) - spent
        share = used / (time.monotonic() - began) / filler.CORES
    assert share <= 0.6, "less is possible on a busy machine, more is not"
    with filler.filling(0.001) as pids:
        assert pids == []
