"""The picture of `timeball top`: text of a given size, made from answers of the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from timeball.cli.inspect.stats import sparkline
from timeball.cli.output.failures import printable
from timeball.client.models.overview import Stats
from timeball.client.models.runs import Run
from timeball.client.models.workers import Worker

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
ORDERS: Final[dict[str, tuple[Callable[[Run], Any], bool]]] = {
    "longest": (lambda run: run.start_time or _NEVER, False),
    "newest": (lambda run: run.start_time or _NEVER, True),
    "latest start": (lambda run: run.late_ms or 0.0, True),
    "job": (lambda run: run.job_name or run.job_id, False),
}
"""The orders of running runs: the sort key, and whether it is reversed."""
HEAD_LINES: Final = 4
MAX_SIDE: Final = 6
"""Maximum number of lines of the parts about workers, attention and fires to come."""
WIDE: Final = 110
"""From this width on, those parts stand beside the running runs."""


class Snapshot(Struct, frozen=True):
    """The answers of the API that the view shows, and when they were read."""

    stats: Stats
    running: Sequence[Run]
    workers: Sequence[Worker]
    at: datetime


class Shown(Struct, frozen=True):
    """What the user chose with keys (the order of the running runs, a pause), and a note about the connection."""

    order: str = "longest"
    paused: bool = False
    note: str = ""
    """The state of the connection, if it is not live."""


def view(found: Snapshot, how: Shown, width: int, height: int) -> RenderableType:
    """Return the view in at most `height` lines."""
    head = _head(found, how, width)
    space = max(height - HEAD_LINES - 1, 3)
    sides = [
        part
        for part in (_attention(found, MAX_SIDE), _workers(found, MAX_SIDE), _upcoming(found, MAX_SIDE))
        if part.row_count
    ]
    if width >= WIDE:
        grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
        grid.add_column(ratio=3)
        grid.add_column(ratio=2)
        grid.add_row(_running(found, how.order, space - 1), Group(*_fitting(sides, space)))
        return Group(*head, grid)
    kept = _fitting(sides, space - 4)
    used = sum(part.row_count + 1 for part in kept)
    return Group(*head, _running(found, how.order, space - used - 1), *kept)


def _fitting(parts: Sequence[Table], space: int) -> list[Table]:
    kept: list[Table] = []
    for part in parts:
        space -= part.row_count + 1
        if space >= 0:
            kept.append(part)
    return kept


def _head(found: Snapshot, how: Shown, width: int) -> list[Text]:
    totals, now, workers = found.stats.totals, found.stats.now, found.stats.workers
    state = "paused" if how.paused else how.note or "live"
    first = Text(f"timeball top  {found.at:%H:%M:%S}  {state}", style="bold", no_wrap=True)
    late = f"late p50 {_ms(totals.late_p50_ms)}  p99 {_ms(totals.late_p99_ms)}"
    rate = f"{totals.runs_per_second:,.1f} runs/s  {late}  failed {totals.failed + totals.dead:,}"
    bars = sparkline([bucket.finished for bucket in found.stats.buckets])[-max(width - len(rate) - 2, 0) :]
    waits = "" if now.oldest_queued_age_ms is None else f" (oldest {_ms(now.oldest_queued_age_ms)})"
    depth = (
        f"running {now.running:,}  queued {now.queued:,}{waits}  blocked {now.blocked:,}  retrying {now.retrying:,}"
        f"  dead {now.dead_letters:,}  workers {workers.live}  slots {workers.busy:,}/{workers.slots:,}"
    )
    keys = f"q quit  p {'resume' if how.paused else 'pause'}  s sort: {how.order}"
    return [
        first,
        Text(f"{rate}  {bars}", no_wrap=True, overflow="ellipsis"),
        Text(depth, no_wrap=True, overflow="ellipsis"),
        Text(keys, style="dim", no_wrap=True, overflow="ellipsis"),
    ]


def _part(*titles: str) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold")
    for number, title in enumerate(titles):
        table.add_column(title, no_wrap=True, overflow="ellipsis", ratio=3 if number == 0 else 1)
    return table


def _running(found: Snapshot, order: str, lines: int) -> Table:
    table = _part("RUNNING", "FOR", "LATE", "DONE", "WORKER")
    key, reverse = ORDERS[order]
    for run in sorted(found.running, key=key, reverse=reverse)[: max(lines, 1)]:
        progress = "" if run.progress is None else str(run.progress)
        table.add_row(
            _safe(run.job_name or run.job_id),
            _ago(run.start_time, found.at),
            _ms(run.late_ms),
            _safe(progress),
            _safe(run.executor_id or ""),
        )
    return table


def _attention(found: Snapshot, lines: int) -> Table:
    table = _part("NEEDS ATTENTION", "SINCE")
    for item in found.stats.attention[:lines]:
        about = f"{item.job_name}: " if item.job_name else ""
        table.add_row(_safe(f"{about}{item.message}", "yellow"), _ago(item.since, found.at))
    return table


def _workers(found: Snapshot, lines: int) -> Table:
    table = _part("WORKER", "SLOTS", "STATUS")
    busiest = sorted(found.workers, key=lambda worker: (-worker.in_use.slots, worker.name))
    for worker in busiest[:lines]:
        table.add_row(_safe(worker.name), f"{worker.in_use.slots}/{worker.slots}", _safe(worker.status))
    return table


def _upcoming(found: Snapshot, lines: int) -> Table:
    table = _part("UP NEXT", "IN")
    for fire in found.stats.up_next[:lines]:
        table.add_row(_safe(fire.job_name or fire.job_id), _ago(found.at, fire.fire_time))
    return table


def _safe(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1_000:,.0f} s"


def _ago(start: datetime | None, end: datetime) -> str:
    if start is None:
        return "-"
    seconds = max(0, round((end - start).total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
