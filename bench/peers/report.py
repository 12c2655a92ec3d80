"""The result as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measurements import median, span
from bench.peers.catalogue import Peer
from bench.peers.drain import DRAINING, Drain


@dataclass(frozen=True)
class Row:
    """The results of a peer in all repeats; no figures if one of them failed."""

    name: str
    packages: tuple[str, ...]
    jobs_per_second: float | None
    runs: tuple[float, ...]
    cpu_us_per_job: float | None
    loop_ms: tuple[float, ...]
    timeball_is_faster: dict[str, float]
    durable: str
    configuration: str
    notes: tuple[str, ...]


def rows(
    peers: Sequence[Peer], drains: Mapping[str, Sequence[Drain]], errors: Mapping[str, str], jobs: int
) -> list[Row]:
    rates = {name: median(each.rate for each in found) for name, found in drains.items() if name not in errors}
    return [_row(peer, drains.get(peer.name, ()), errors.get(peer.name), rates, jobs) for peer in peers]


def _row(peer: Peer, found: Sequence[Drain], error: str | None, rates: Mapping[str, float], jobs: int) -> Row:
    rate = rates.get(peer.name)
    notes = [error.splitlines()[0]] if error else [*_notes(peer, found, jobs)]
    return Row(
        name=peer.name,
        packages=peer.packages,
        jobs_per_second=rate,
        runs=tuple(round(each.rate, 1) for each in found),
        cpu_us_per_job=round(median(each.cpu_us_per_job for each in found), 1) if rate is not None else None,
        loop_ms=tuple(round(reading, 1) for each in found for reading in each.loop_ms),
        timeball_is_faster={
            name: round(rates[name] / rate, 2) for name in rates if name.startswith("timeball-") and rate is not None
        },
        durable=peer.durable,
        configuration=peer.configuration,
        notes=tuple(notes),
    )


def _notes(peer: Peer, found: Sequence[Drain], jobs: int) -> list[str]:
    backlog = min(jobs, peer.most)
    notes = []
    if not peer.keeps_history:
        notes.append("keeps no history of ended jobs, while Timeball keeps each run with its verdict")
    if peer.jobs_per_call > 1:
        notes.append(f"ONE CALL FOR UP TO {peer.jobs_per_call:,} JOBS")
    if backlog < jobs:
        notes.append(f"backlog of {backlog:,}")
    if any(each.done < each.backlog for each in found):
        done = median(each.done for each in found)
        notes.append(f"not finished: {done:,.0f} jobs within {DRAINING:g} s")
    elif peer.jobs_per_call == 1 and any(each.calls != each.backlog for each in found):
        calls = ", ".join(f"{each.calls:,}" for each in found)
        notes.append(f"{calls} calls for {backlog:,} jobs")
    return notes


def show(table: Sequence[Row]) -> None:
    stores = [row.name for row in table if row.name.startswith("timeball-")]
    print(f"\n{'':22}{'jobs/s':>8}{'CPU µs/job':>13}   {'Timeball is × as fast':24}durable")
    print(f"{'':46}" + "".join(f"{name.removeprefix('timeball-'):12}" for name in stores))
    for row in table:
        rate = "failed" if row.jobs_per_second is None else f"{row.jobs_per_second:,.0f}"
        spent = "" if row.cpu_us_per_job is None else f"{row.cpu_us_per_job:,.0f}"
        ratios = "".join(f"{row.timeball_is_faster.get(name, float('nan')):<12.2f}" for name in stores)
        print(f"{row.name:22}{rate:>8}{spent:>13}   {ratios:24}{row.durable}")
        runs = f"runs: {' '.join(f'{rate:,.0f}' for rate in row.runs)}; loop ms: {span(row.loop_ms)}"
        for line in (row.configuration, *row.notes, runs):
            print(f"{'':6}{line}")


def write(path: Path, table: Sequence[Row], circumstances: Mapping[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**circumstances, "peers": [asdict(row) for row in table]}, indent=2) + "\n")
