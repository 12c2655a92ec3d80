"""`python -m bench.peers [NAME...]`: drain a backlog of no-op jobs with Timeball and with its peers, in turns.

Installs missing programs into `.bench-peers/`, starts and stops its own Redis and PostgreSQL, prints a table and writes
`bench/results/peers.json`. README.md beside this file explains how each peer is configured, and why.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import machine
from bench.measurements import span
from bench.peers.catalogue import COMMIT, OTHERS, PEERS, TIMEBALL, Peer
from bench.peers.drain import Drain, PeerError, drain
from bench.peers.install import command
from bench.peers.report import rows, show, write

JOBS = 100_000
RESULTS = Path(__file__).parents[1] / "results" / "peers.json"


def main() -> int:
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops all processes that were started, as Ctrl-C does
    chosen = [peer for peer in PEERS if not given.names or peer in TIMEBALL or peer.name in given.names]
    if given.redis_fsync == "always":
        chosen = [replace(peer, durable=COMMIT) if peer.store == "redis" else peer for peer in chosen]
    for peer in chosen:
        command(peer)
    redis = f"Redis with appendonly yes, appendfsync {given.redis_fsync}"
    where = f"{machine.described()}; {redis}"
    print(f"Drain of {given.jobs:,} due no-op jobs, median of {given.repeats} runs in turns ({where})")
    drains, errors = _measure(chosen, given.jobs, given.repeats, given.redis_fsync)
    table = rows(chosen, drains, errors, given.jobs)
    show(table)
    write(
        given.results,
        table,
        {"jobs": given.jobs, "repeats": given.repeats, "machine": machine.described(), "redis": redis},
    )
    return 1 if errors else 0


def _arguments() -> argparse.Namespace:
    names = ", ".join(peer.name for peer in OTHERS)
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these, beside Timeball: {names}")
    parser.add_argument("--jobs", type=int, default=JOBS, help="the size of the backlog; slow peers get a smaller one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--redis-fsync", choices=("everysec", "always"), default="everysec")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if unknown := set(given.names) - {peer.name for peer in PEERS}:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {names}")
    return given


def _measure(
    chosen: Sequence[Peer], jobs: int, repeats: int, redis_fsync: str
) -> tuple[dict[str, list[Drain]], dict[str, str]]:
    """Measure all peers once, then all again, so that other load on the machine affects all of them equally."""
    drains: dict[str, list[Drain]] = defaultdict(list)
    errors: dict[str, str] = {}
    for _ in range(repeats):
        for peer in chosen:
            if peer.name in errors:
                continue
            try:
                found = drain(peer, jobs, redis_fsync)
            except PeerError as error:
                errors[peer.name] = str(error)
                print(error, flush=True)
            else:
                drains[peer.name].append(found)
                spent = f"{found.done:,} in {found.seconds:.1f} s, {found.cpu_us_per_job:,.0f} µs of CPU each"
                pace = f"loop {span(found.loop_ms)} ms"
                print(f"{peer.name:22}{found.rate:10,.0f} jobs/s ({spent}; {pace})", flush=True)
    return drains, errors


if __name__ == "__main__":
    raise SystemExit(main())
