"""`timeball audit`: one line whose numbers must add up, and every fire that was not on time."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.stub_server import StubServer
from timeball.cli import session
from timeball.cli.root import timeball

SPLIT = {"schedulerMs": 0.0, "blockedMs": 2400.0, "queueMs": 0.25, "workerMs": 99.75, "totalMs": 2500.0}
JOB_ID = "j_0194f3a1c2b79f86d081884c7d65"


def entry(verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "fireTime": "2026-03-01T02:00:00Z",
        "fireUntil": "2026-03-01T02:00:00Z",
        "count": 1,
        "verdict": verdict,
        **more,
    }


def audited(ledger: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    server = StubServer()
    server.on("GET", f"/v1/jobs/{JOB_ID}/ledger", ledger)
    monkeypatch.setattr(session, "make_transport", lambda: server)
    monkeypatch.chdir(tmp_path)
    return CliRunner().invoke(timeball, ["audit", JOB_ID, *options])


def test_the_sentence_of_the_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = {
        "due": 1440,
        "counts": {"skipped": 1, "late": 2, "on_time": 1437},
        "items": [
            entry("on_time", runId="r_0"),
            entry("late", runId="r_1", lateMs=2500.0, lateness=SPLIT),
            entry("late", runId="r_2", lateMs=3000.0),
            entry("skipped", reason="run r_2 was still running"),
        ],
    }
    result = audited(ledger, tmp_path, monkeypatch)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1,440 due = 1,437 on time + 2 late + 1 skipped (run r_2 was still running)",
        "FIRE TIME\tFIRES\tVERDICT\tLATE\tOF WHICH\tRUN\tREASON",
        "2026-03-01T02:00:00Z\t1\tlate\t2.5 s\tblocked 2.4 s + worker 100 ms\tr_1\t-",
        "2026-03-01T02:00:00Z\t1\tlate\t3.0 s\t-\tr_2\t-",
        "2026-03-01T02:00:00Z\t1\tskipped\t-\t-\t-\trun r_2 was still running",
    ]


def test_a_span_of_missed_instants_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    span = entry("missed", count=60, fireUntil="2026-03-01T02:59:00Z", reason="no server was running")
    result = audited({"due": 60, "counts": {"missed": 60}, "items": [span]}, tmp_path, monkeypatch)
    assert "60 due = 60 missed (no server was running)" in result.stdout
    assert "2026-03-01T02:00:00Z to 2026-03-01T02:59:00Z\t60\tmissed" in result.stdout


@pytest.mark.parametrize("form", ["plain", "json"])
def test_a_ledger_that_does_not_add_up_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    ledger = {"due": 3, "counts": {"on_time": 2}, "items": []}
    result = audited(ledger, tmp_path, monkeypatch, "-o", form)
    assert result.exit_code == 1
    assert "The ledger does not add up: 2 of 3." in result.stderr


def test_nothing_due_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audited({"due": 0, "counts": {}, "items": []}, tmp_path, monkeypatch)
    assert (result.exit_code, result.stdout) == (0, "0 due\n")


def test_every_verdict_has_its_place_in_the_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [
        entry("caught_up", runId="r_1", lateMs=60_000.0, lateness={"schedulerMs": 60_000.0, "totalMs": 60_000.0}),
        entry("skipped", runId="r_2", reason="it did not start within its start deadline"),
        entry("skipped", runId="r_3", reason="a later fire replaced this run"),
        entry("missed", count=3, reason="not running at the time, and catchUp is none"),
        entry("cancelled", runId="r_4", reason="run r_5 replaced this run (overlap cancel_previous)"),
        entry("open", runId="r_5"),
    ]
    counts = {"open": 1, "cancelled": 1, "missed": 3, "skipped": 2, "caught_up": 1, "on_time": 2}
    result = audited({"due": 10, "counts": counts, "items": items}, tmp_path, monkeypatch)
    first, _, *exceptions = result.stdout.splitlines()
    assert first == (
        "10 due = 2 on time + 1 caught up"
        " + 2 skipped (it did not start within its start deadline; a later fire replaced this run)"
        " + 3 missed (not running at the time, and catchUp is none)"
        " + 1 cancelled (run r_5 replaced this run (overlap cancel_previous)) + 1 open"
    )
    assert len(exceptions) == len(items)
    assert "caught_up\t60.0 s\tscheduler 60.0 s\tr_1" in exceptions[0]
