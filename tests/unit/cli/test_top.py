"""The view of `timeball top` fits its size, in every order, whatever the answers contain."""

from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from timeball.cli.inspect.top_view import ORDERS, WIDE, Shown, Snapshot, view
from timeball.client.models.overview import AttentionItem, EndsInWindow, LiveCounts, Stats, UpcomingFire, WorkerCounts
from timeball.client.models.runs import Run
from timeball.client.models.workers import InUse, Worker

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BUSY = Snapshot(
    stats=Stats(
        window="5m",
        since=NOW - timedelta(minutes=5),
        until=NOW,
        totals=EndsInWindow(runs_per_second=1_234.5, late_p50_ms=2.0, late_p99_ms=12_500.0, failed=3, dead=1),
        now=LiveCounts(running=200, queued=7, oldest_queued_age_ms=900.0, dead_letters=1),
        workers=WorkerCounts(live=20, slots=500, busy=200),
        up_next=[UpcomingFire(job_id="j", job_name=f"next {n}", fire_time=NOW + timedelta(hours=n)) for n in range(10)],
        attention=[AttentionItem(kind="dead", message=f"\x1b[31malarm {n}", since=NOW) for n in range(10)],
    ),
    running=[
        Run(
            run_id=f"r{n}",
            job_name=f"job {n:03} {'ü' * n}",
            start_time=NOW - timedelta(seconds=n),
            late_ms=float(n % 7),
        )
        for n in range(100)
    ],
    workers=[Worker(name=f"worker {n}", slots=25, in_use=InUse(slots=n)) for n in range(20)],
    at=NOW,
)
IDLE = Snapshot(Stats(window="5m", since=NOW, until=NOW), [], [], NOW)


def drawn(found: Snapshot, width: int, height: int, how: Shown | None = None) -> list[str]:
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(view(found, how or Shown(), width, height))
    return capture.get().splitlines()


@pytest.mark.parametrize("found", [BUSY, IDLE], ids=["busy", "idle"])
@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 12), (WIDE, 15), (300, 100)], ids=str)
def test_it_fits(found: Snapshot, size: tuple[int, int]) -> None:
    lines = drawn(found, *size)
    assert len(lines) < size[1]
    assert all(len(line) <= size[0] for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_it_shows_what_the_statistics_say() -> None:
    text = "\n".join(drawn(BUSY, 160, 50))
    for words in ("1,234.5 runs/s", "p99 12 s", "failed 4", "queued 7 (oldest 900 ms)", "slots 200/500", "worker 19"):
        assert words in text, words
    assert {"NEEDS ATTENTION", "UP NEXT", "WORKER", "RUNNING"} <= set(text.replace("  ", "\n").split("\n"))


@pytest.mark.parametrize(
    ("order", "first"), [("longest", "job 099"), ("newest", "job 000"), ("latest start", "job 006"), ("job", "job 000")]
)
def test_running_runs_are_in_the_chosen_order(order: str, first: str) -> None:
    lines = drawn(BUSY, 80, 24, Shown(order=order))
    assert lines[lines.index(next(line for line in lines if line.startswith("RUNNING"))) + 1].startswith(first)
    assert order in ORDERS


def test_it_says_when_it_is_not_live() -> None:
    assert "paused" in drawn(IDLE, 80, 24, Shown(paused=True, note="polling"))[0]
    assert "polling" in drawn(IDLE, 80, 24, Shown(note="polling"))[0]
