"""Is this checkout as fast as another? The life cycle in steady state on both, in turns: a noisy machine hurts both.

python -m bench.compare OTHER_CHECKOUT [--pairs 5] [--store sqlite]

The other checkout needs its own `.venv` (make install-dev); its Timeball is measured by the benchmark of this one.
Prints the ratio of each pair, and their medians: of jobs per second, and of CPU per job, which noise changes less.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from bench import machine
from bench.figures import median
from bench.house import STORES, WORKERS, house
from bench.sections.lifecycle import SLOTS, steady

LEAST = 0.95
WARM, WINDOW = 1.0, 4.0
"""Seconds."""

Ratios = dict[tuple[str, str], list[float]]


def measure(python: str, store: str, worker: str) -> tuple[float, float]:
    """Jobs per second, and µs of CPU per job, of the Timeball that this interpreter finds."""
    with house(store, worker, SLOTS, python=python) as running:
        found = steady(running, WARM, WINDOW)
    return found.rate, sum(found.cpu.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--store", choices=STORES)
    given = parser.parse_args()
    here, there = sys.executable, str(given.other.resolve() / ".venv/bin/python")
    print(f"Life cycle in steady state, this checkout against another, in turns\n{machine.described()}")
    rates: Ratios = defaultdict(list)
    prices: Ratios = defaultdict(list)
    for pair in range(given.pairs):
        for store in [given.store] if given.store else STORES:
            for worker in WORKERS:
                order = (here, there) if pair % 2 else (there, here)
                found = {python: measure(python, store, worker) for python in order}
                rates[store, worker].append(found[here][0] / found[there][0])
                prices[store, worker].append(found[here][1] / found[there][1])
        print(
            f"pair {pair + 1}: jobs/s {_last(rates)}; CPU {_last(prices)}; loop {machine.loop_ms():.0f} ms", flush=True
        )
    print(f"{'':38}  jobs/s   CPU per job")
    for kind, ratios in rates.items():
        print(f"{kind[0]:14}{kind[1]:24}{median(ratios):8.2f}{median(prices[kind]):14.2f}")
    everything = median(ratio for ratios in rates.values() for ratio in ratios)
    print(f"median ratio {everything:.2f}" + ("" if everything >= LEAST else f": below {LEAST}"))
    return 0 if everything >= LEAST else 1


def _last(ratios: Ratios) -> str:
    return ", ".join(f"{store}/{worker} {found[-1]:.2f}" for (store, worker), found in ratios.items())


if __name__ == "__main__":
    raise SystemExit(main())
