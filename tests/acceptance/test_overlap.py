"""I16: each overlap policy does what it promises, across a kill -9 of the server. The runs record what happened."""

import contextlib
import datetime as dt
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.processes import (
    WAIT_SECONDS,
    Api,
    Process,
    free_port,
    running_server,
    running_up,
    start_worker,
    until,
)
from tests.support.thorough import THOROUGH

FIRES = 20 if THOROUGH else 14
SECOND = dt.timedelta(seconds=1)
LENGTHS = {
    "allow": 2.5,
    "skip": 2.5,
    "queue": 1.1,  # all of them run, one after the other
    "queue_one": 2.5,
    "cancel_previous": 2.5,
    "terminate_previous": 2.5,
}
"""How long a run of each policy takes, with a fire every second."""
WITNESS = """
say() {{ echo "$1 $TIMEBALL_FIRE_TIME $2" >> {file}; }}
trap 'say term; exit 1' TERM
others=0
for pid in $(cat {file}.pids); do
  if grep -q '^State:.[^Z]' /proc/$pid/status; then others=$((others + 1)); fi
done 2> /dev/null
echo $$ >> {file}.pids
say start $others
sleep {length} & wait
say end
"""
"""Says how many other runs of its job it found alive, that it was asked to stop, and that it came to its end."""
RAN = ("on_time", "late", "caught_up")

pytestmark = pytest.mark.timeout(300)
Restart = Callable[[], contextlib.AbstractContextManager[tuple[Process, Api]]]


class Line(msgspec.Struct, frozen=True):
    what: str
    fire: dt.datetime
    others: int


class Outage(msgspec.Struct, frozen=True):
    began: dt.datetime
    ended: dt.datetime

    def touches(self, run: dict[str, Any]) -> bool:
        """Whether a run was alive while there was no server."""
        start, end = moment(run["startTime"] or run["createdAt"]), moment(run["endTime"])
        return start <= self.ended and end >= self.began


class Series(msgspec.Struct):
    """What became of the fires of one job, by its ledger and by its runs."""

    policy: str
    lines: list[Line]
    ledger: dict[str, Any]
    runs: dict[str, dict[str, Any]]
    outage: Outage

    @property
    def started(self) -> list[dt.datetime]:
        return [line.fire for line in self.lines if line.what == "start"]

    @property
    def most_others(self) -> int:
        return max(line.others for line in self.lines if line.what == "start")

    def said(self, what: str) -> set[dt.datetime]:
        return {line.fire for line in self.lines if line.what == what}

    def rows(self, *verdicts: str) -> list[dict[str, Any]]:
        return [row for row in self.ledger["items"] if row["verdict"] in verdicts]

    def instants(self, *verdicts: str) -> list[dt.datetime]:
        """The instants with these verdicts, in order."""
        return [moment(row["fireTime"]) + SECOND * step for row in self.rows(*verdicts) for step in range(row["count"])]


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def read(file: Path) -> list[Line]:
    words = [line.split() for line in file.read_text().splitlines()]
    return [Line(what, moment(fire), int(others[0]) if others else 0) for what, fire, *others in words]


def create(api: Api, folder: Path, policy: str) -> str:
    command = WITNESS.format(file=folder / policy, length=LENGTHS[policy])
    return api.create(
        {
            "name": policy,
            "task": {"kind": "shell", "command": command},
            "schedule": {"type": "interval", "expression": "1s"},
            "overlap": policy,
            "maxRuns": FIRES,
        }
    )


def watch(folder: Path, server: Process, api: Api, restart: Restart) -> dict[str, Series]:
    """Let all policies fire, and kill the server half way."""
    jobs = {policy: create(api, folder, policy) for policy in LENGTHS}
    until(lambda: len(set(read_starts(folder / "allow"))) >= FIRES // 2, "half of the fires")
    began = dt.datetime.now(dt.UTC)
    server.kill()
    time.sleep(2)  # some fires have to be caught up
    with restart() as (_, api):
        outage = Outage(began, dt.datetime.now(dt.UTC))
        until(
            lambda: all(is_over(api, job) for job in jobs.values()),
            "all fires to have their verdicts",
            2 * WAIT_SECONDS,
        )
        return {
            policy: Series(
                policy,
                read(folder / policy),
                api.call("GET", f"/v1/jobs/{job}/ledger?limit=100"),
                {run["runId"]: run for run in api.call("GET", f"/v1/jobs/{job}/runs?limit=100")["items"]},
                outage,
            )
            for policy, job in jobs.items()
        }


def read_starts(file: Path) -> list[str]:
    return [line.split()[1] for line in file.read_text().splitlines() if line.startswith("start")]


def is_over(api: Api, job_id: str) -> bool:
    counts = api.call("GET", f"/v1/jobs/{job_id}/ledger")["counts"]
    return sum(counts.values()) >= FIRES and not counts.get("open")


def watch_up(folder: Path) -> dict[str, Series]:
    port = free_port()
    with running_up(folder, port) as (process, api):
        api.await_workers(1)
        return watch(folder, process, api, lambda: running_up(folder, port))


def watch_server_and_worker(folder: Path, dsn: str) -> dict[str, Series]:
    port = free_port()
    with (
        running_server(folder, dsn, port) as (server, api),
        start_worker(folder, api, name="apart", slots=32),
    ):
        api.await_workers(1)
        return watch(folder, server, api, lambda: running_server(folder, dsn, port))


def test_each_policy_does_what_it_says_on_both_stores_and_across_a_kill_9(tmp_path: Path, postgres_dsn: str) -> None:
    folders = [tmp_path / name for name in ("sqlite", "postgres")]
    for folder in (tmp_path, *folders):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        houses = [pool.submit(watch_up, folders[0]), pool.submit(watch_server_and_worker, folders[1], postgres_dsn)]
        seen = {folder.name: house.result() for folder, house in zip(folders, houses, strict=True)}
    for store, by_policy in seen.items():
        for policy, series in by_policy.items():
            print(f"{store} {policy}: {series.ledger['counts']}, at most {series.most_others + 1} alive")
            accounted_for(series)
            CHECKS[policy](series)


def accounted_for(series: Series) -> None:
    """Each instant has one verdict, and those who ran are those who say so."""
    every = sorted(series.instants(*RAN, "skipped", "cancelled"))
    assert series.ledger["due"] == sum(series.ledger["counts"].values()) == FIRES
    assert every == [every[0] + SECOND * step for step in range(FIRES)]
    assert set(series.instants(*RAN)) <= set(series.started)
    assert not set(series.instants("skipped")) & set(series.started)
    assert series.said("end") >= set(series.instants(*RAN))


def one_by_one(series: Series) -> None:
    assert series.most_others == 0
    assert series.started == sorted(series.started)


def all_ran_side_by_side(series: Series) -> None:
    assert len(series.instants(*RAN)) == FIRES
    assert series.most_others >= 2


def all_ran_in_order(series: Series) -> None:
    one_by_one(series)
    assert len(series.instants(*RAN)) == FIRES


def skipped_while_another_ran(series: Series) -> None:
    one_by_one(series)
    ran = series.instants(*RAN)
    punctual = set(series.instants("on_time"))  # what is late was decided late: its blocker may have ended meanwhile
    assert all(later - earlier >= 3 * SECOND for earlier, later in pairwise(ran) if {earlier, later} <= punctual)
    assert len(ran) >= 2  # a run that the kill interrupts is in the way until its lease has lapsed
    for row in series.rows("skipped"):
        blocker = series.runs[found(r"run (\w+) was still running", row["reason"])]
        assert moment(blocker["fireTime"]) < moment(row["fireTime"])
        known_end = moment(blocker["endTime"]) + SECOND  # it is alive until its end was reported
        assert known_end > moment(row["fireUntil"]) or series.outage.touches(blocker)


def the_first_waited_and_the_others_were_skipped(series: Series) -> None:
    one_by_one(series)
    ran = [series.runs[row["runId"]] for row in series.rows(*RAN)]
    assert len(ran) >= 3
    for row in series.rows("skipped"):
        found(r"another run was already waiting behind run (\w+)", row["reason"])
    for skipped in series.instants("skipped"):
        assert any(moment(run["fireTime"]) < skipped < moment(run["startTime"]) for run in ran), "one waited already"


def the_newest_took_the_place(series: Series) -> None:
    one_by_one(series)
    *replaced, newest = series.ledger["items"]
    assert newest["status"] == "succeeded"
    cancelled = [series.runs[row["runId"]] for row in series.rows("cancelled")]
    assert len(cancelled) >= FIRES // 4
    for run in cancelled:
        successor = series.runs[found(rf"run (\w+) replaced this run \(overlap {series.policy}\)", run["reason"])]
        assert successor["fireTime"] > run["fireTime"]
    assert {row["reason"] for row in series.rows("skipped")} <= {"a later fire replaced this run"}
    for row in replaced:
        if row["verdict"] in RAN:  # its successor could not be planned in time
            assert series.outage.touches(series.runs[row["runId"]])


def the_newest_had_it_stop(series: Series) -> None:
    the_newest_took_the_place(series)
    for run in (series.runs[row["runId"]] for row in series.rows("cancelled")):
        if moment(run["fireTime"]) in series.started and not series.outage.touches(run):
            assert moment(run["fireTime"]) in series.said("term") - series.said("end")


def the_newest_had_it_killed(series: Series) -> None:
    the_newest_took_the_place(series)
    assert series.said("term") == set()
    for run in (series.runs[row["runId"]] for row in series.rows("cancelled")):
        assert moment(run["fireTime"]) not in series.said("end") or series.outage.touches(run)


def found(pattern: str, text: str) -> str:
    match = re.fullmatch(pattern, text)
    assert match is not None, text
    return match.group(1)


CHECKS: dict[str, Callable[[Series], None]] = {
    "allow": all_ran_side_by_side,
    "skip": skipped_while_another_ran,
    "queue": all_ran_in_order,
    "queue_one": the_first_waited_and_the_others_were_skipped,
    "cancel_previous": the_newest_had_it_stop,
    "terminate_previous": the_newest_had_it_killed,
}
