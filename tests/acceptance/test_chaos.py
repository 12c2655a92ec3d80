"""`timeball chaos` on real processes finds no broken promise in a fleet under kill -9, and finds a planted bug."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import KEY, is_alive, running_server, start_worker, until
from tests.support.recount import check_usage_of
from tests.support.thorough import THOROUGH

LEASE = 15.0
RECOVERY = LEASE + 2
"""Seconds until what a dead worker had is with another one."""
SERVER_LOST = 5.0
"""Seconds that a dead server may cost."""

pytestmark = pytest.mark.timeout(600)
thorough = pytest.mark.skipif(not THOROUGH, reason="takes minutes; TIMEBALL_THOROUGH=1 runs it")


def chaos(folder: Path, *arguments: str, expect: int = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "timeball", "chaos", *arguments, "-o", "json"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == expect, f"{ended.stderr[-3000:]}\n{ended.stdout[:3000]}"
    print(ended.stdout)
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_three_servers_and_four_workers_under_kill_9_keep_every_promise(tmp_path: Path, postgres_dsn: str) -> None:
    """I1 to I8, I23: hundreds of jobs fire, most of them each second, and every 2 s a server or a worker is killed
    and started again. Usage counts each attempt once."""
    minutes, jobs = (2, 300) if THOROUGH else (0.25, 60)
    load = ("--servers", "3", "--workers", "4", "--jobs", str(jobs), "--minutes", str(minutes))
    found = chaos(tmp_path, "--store", postgres_dsn, *load, "--faults", "kill", "--every", "2")
    assert found["faults"]["kill server"] + found["faults"]["kill worker"] >= 25 * minutes
    assert found["due"] >= jobs * 60 * minutes
    assert found["due"] == found["onTime"] + found["late"], "0 lost, 0 stuck"
    assert [found[each] for each in ("early", "double", "doubleEffective", "extra", "unbalanced")] == [0] * 5
    assert found["repeated"] > 0, "workers were killed while they had something to do"
    assert asyncio.run(check_usage_of(postgres_dsn)) >= found["due"]
    recoveries = found["recoveries"]
    if THOROUGH:  # on a machine that does nothing else: how long it takes is not for every machine to prove
        assert recoveries["kill worker"]["p99Seconds"] <= RECOVERY
        assert recoveries.get("kill server", {"maxSeconds": 0})["maxSeconds"] <= SERVER_LOST


@pytest.mark.parametrize(
    ("bug", "breach", "more"),
    [
        ("early-start", "early", ("--faults", "none")),
        pytest.param("forgotten-end", "double", ("--faults", "none"), marks=thorough),
        pytest.param("no-once-only-guard", "double", ("--servers", "3"), marks=thorough),
        pytest.param("answer-before-commit", "lost", ("--servers", "2", "--minutes", "0.3"), marks=thorough),
        pytest.param("no-rescue", "stuck", ("--workers", "2", "--minutes", "0.3"), marks=thorough),
    ],
)
def test_a_planted_bug_is_found(
    tmp_path: Path, postgres_dsn: str, bug: str, breach: str, more: tuple[str, ...]
) -> None:
    small = ("--servers", "1", "--workers", "1", "--jobs", "60", "--minutes", "0.1", "--seed", "1", "--faults", "kill")
    found = chaos(tmp_path, "--store", postgres_dsn, *small, *more, "--plant", bug, expect=1)
    assert found[breach] > 0


@thorough
def test_every_kind_of_fault(tmp_path: Path) -> None:
    """On a PostgreSQL that chaos starts itself, so that it may be restarted, too."""
    small = ("--servers", "2", "--workers", "2", "--jobs", "20", "--minutes", "2")
    found = chaos(tmp_path, *small, "--seed", "21", "--every", "1.5")  # a seed with which everything breaks soon
    assert {name.split()[0] for name in found["faults"]} == {"kill", "pause", "cut", "hang", "delay", "restart"}
    assert found["violations"] == []
    assert found["due"] == found["onTime"] + found["late"]


def test_a_fleet_that_is_there_is_judged_by_its_ledger(tmp_path: Path, postgres_dsn: str) -> None:
    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="alice", slots=16):
        api.await_workers(1)
        mark = tmp_path / "mark"
        there = ("--url", api.url, "--key", KEY, "--break", f"echo broken >> {mark}")
        found = chaos(tmp_path, *there, "--minutes", "0.1", "--jobs", "20")
        assert found["due"] == found["onTime"] + found["late"] >= 6 * 20
        assert len(mark.read_text().splitlines()) == found["faults"]["command fleet"] == 2
        jobs = api.call("GET", "/v1/jobs?name=timeball-chaos&limit=1000")["items"]
        assert len(jobs) == found["jobs"]


def test_nothing_is_left_of_a_chaos_that_was_killed_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "timeball", "chaos", "--servers", "1", "--workers", "1", "--jobs", "5"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "submitting" in line:
                break
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 4, "a guard, a database, a server and a worker"
        process.send_signal(signal.SIGKILL)
    until(lambda: not any(is_alive(member.pid) for member in family), "everything to be gone")
