"""A backfill survives kill -9: every fire is one run, and only interrupted attempts are repeated (I5)."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Api, free_port, running_server, running_up, start_worker, until
from tests.support.thorough import THOROUGH

FIRES = 1_440
WITNESS = 'echo "$TIMEBALL_FIRE_TIME $TIMEBALL_RUN_ID $TIMEBALL_ATTEMPT" >> {}'

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not THOROUGH, reason="TIMEBALL_THOROUGH is not set"),
]


def begin(api: Api, file: Path) -> str:
    minutely = {"type": "cron", "expression": "* * * * *"}
    job = {"task": {"kind": "shell", "command": WITNESS.format(file)}, "schedule": minutely}
    window = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    begun = api.call("POST", f"/v1/jobs/{api.create(job)}/backfill", expect=201, json={**window, "parallelism": 4})
    assert begun["total"] == FIRES
    return str(begun["backfillId"])


def lines(file: Path) -> list[list[str]]:
    """Of the backfill: fires of today go beside it."""
    written = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in written if line[0].startswith("2026-02-01")]


def ended(api: Api, backfill_id: str) -> dict[str, Any] | None:
    shown: dict[str, Any] = api.call("GET", f"/v1/backfills/{backfill_id}")
    return shown if shown["status"] == "completed" else None


def test_kill_9_of_all_that_there_is_skips_and_doubles_no_fire(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "witness", free_port()
    with running_up(tmp_path, port) as (process, api):
        api.await_workers(1)
        backfill_id = begin(api, file)
        until(lambda: len(lines(file)) > FIRES // 3, "a third of the fires")
        process.kill()
    with running_up(tmp_path, port) as (_, api):
        shown = until(lambda: ended(api, backfill_id), "the backfill to end")
    assert shown["succeeded"] == FIRES
    runs: dict[str, set[str]] = defaultdict(set)
    attempts: dict[str, list[int]] = defaultdict(list)
    for fire_time, run_id, attempt in lines(file):
        runs[fire_time].add(run_id)
        attempts[run_id].append(int(attempt))
    assert len(runs) == FIRES
    assert all(len(of_one) == 1 for of_one in runs.values())
    repeated = [tries for tries in attempts.values() if len(tries) > 1]
    assert len(repeated) <= 4, "no more than were running"


def test_kill_9_of_a_server_repeats_nothing_that_its_worker_did(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "witness", free_port()
    with running_server(tmp_path, postgres_dsn, port) as (server, api), start_worker(tmp_path, api, name="w", slots=8):
        backfill_id = begin(api, file)
        until(lambda: len(lines(file)) > FIRES // 3, "a third of the fires")
        server.kill()
        with running_server(tmp_path, postgres_dsn, port) as (_, again):
            shown = until(lambda: ended(again, backfill_id), "the backfill to end", 120)
    assert shown["succeeded"] == FIRES
    assert len({fire_time for fire_time, _, _ in lines(file)}) == len(lines(file)) == FIRES
