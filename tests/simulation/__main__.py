"""`python -m tests.simulation`: runs many seeds, prints a progress line, and the first violations with their traces."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from tests.simulation.plants import PLANTS
from tests.simulation.rules import APART, THEMES
from tests.simulation.simulate import Outcome, simulate

CHUNK = 20
SHARE_APART = 0.02
Chunk: TypeAlias = tuple[int, int, str | None, str | None]
"""The first seed, the number of seeds, the planted bug and the theme."""


def _chunks(first: int, count: int, plant: str | None, theme: str | None) -> list[Chunk]:
    return [(at, min(CHUNK, first + count - at), plant, theme) for at in range(first, first + count, CHUNK)]


def _chunk(job: Chunk) -> list[Outcome]:
    first, count, plant, theme = job
    planted = PLANTS[plant] if plant else None
    outcomes = [simulate(seed, planted, theme=theme) for seed in range(first, first + count)]
    gc.collect()
    for outcome in outcomes:
        if outcome.violation is None:
            outcome.tail = []
    return outcomes


def _one(seed: int, plant: str | None, theme: str | None, trace: bool) -> int:
    outcome = simulate(seed, PLANTS[plant] if plant else None, tail=1_000_000 if trace else 0, theme=theme)
    for line in outcome.tail:
        print(line)
    _summary([outcome], 0.0)
    if outcome.violation is not None:
        print(f"seed {seed}: {outcome.promise} is broken: {outcome.violation}")
    return 0 if outcome.violation is None else 1


def _summary(outcomes: Iterable[Outcome], seconds: float) -> None:
    outcomes = list(outcomes)
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        faults.update(outcome.faults)
    virtual = sum(outcome.virtual for outcome in outcomes)
    steps = sum(outcome.steps for outcome in outcomes)
    print(f"seeds               {len(outcomes):>12,}  ({sum(o.bounded for o in outcomes):,} with an end of trouble)")
    print(f"virtual time        {virtual / 3600:>12,.1f}  hours")
    print(f"steps               {steps:>12,}")
    print(f"client requests     {sum(outcome.requests for outcome in outcomes):>12,}")
    print(f"attempts executed   {sum(outcome.attempts for outcome in outcomes):>12,}")
    print(f"faults injected     {faults.total():>12,}")
    for kind, count in sorted(faults.items(), key=lambda item: -item[1]):
        print(f"  {kind:<28}{count:>9,}")
    broken = Counter(outcome.promise for outcome in outcomes if outcome.violation is not None)
    print(f"violations          {broken.total():>12,}  {dict(broken) or ''}")
    if seconds:
        print(f"real time           {seconds:>12,.1f}  s  ({len(outcomes) / seconds:.1f} seeds/s)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        default=1000,
        help=f"how many (default 1000), and a fiftieth as many of each: {', '.join(APART)}",
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="with this bug planted")
    parser.add_argument(
        "--theme",
        choices=("mixed", "zombies", "edits", "deploys", *THEMES, *APART),
        help="only such worlds",
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop after 3 violations")
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed, options.plant, options.theme, options.trace)
    jobs = _chunks(options.first, options.seeds, options.plant, options.theme)
    if options.theme is None and options.plant is None:
        for theme in APART:
            jobs += _chunks(options.first, int(options.seeds * SHARE_APART), None, theme)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    broken = 0
    with multiprocessing.get_context("fork").Pool(options.processes, maxtasksperchild=25) as pool:
        for number, chunk in enumerate(pool.imap_unordered(_chunk, jobs), 1):
            for outcome in chunk:
                outcomes.append(outcome)
                if outcome.violation is not None:
                    broken += 1
                    if broken <= 3 or options.keep_going:
                        _report(outcome)
            if number % 25 == 0 or number == len(jobs):
                rate = len(outcomes) / (time.monotonic() - began)
                print(f"{len(outcomes):>7,} seeds, {broken} violations, {rate:.1f} seeds/s", flush=True)
            if broken >= 3 and not options.keep_going:
                pool.terminate()
                break
    _summary(outcomes, time.monotonic() - began)
    return 1 if broken else 0


def _report(outcome: Outcome) -> None:
    print(f"--- seed {outcome.seed}")
    for line in outcome.tail[-40:]:
        print(line[:240])
    print(f"seed {outcome.seed}: {outcome.promise} is broken: {outcome.violation}")
    print(f"again: python -m tests.simulation {outcome.again} --trace", flush=True)


if __name__ == "__main__":
    sys.exit(main())
