"""Measures the given sections, or all of them, and exits with 1 if a promise was not kept."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path

from bench import machine, recorder
from bench.deployment import STORES, Trouble
from bench.kinds.catalogue import BY_NAME, PARTS
from bench.recorder import RESULTS, Scale

SECTIONS = {
    "ingest": "jobs/s accepted over HTTP, one per request and in batches",
    "lifecycle": "jobs/s in steady state: submitted, durable, executed, result durable",
    "drain": "jobs/s when a backlog meets a worker",
    "lateness": "how late jobs start: one by one, spread, many at one instant, many per second",
    "kinds": "HTTP calls, commands, scripts and functions, each beside its raw limit",
    "mixed": "ten minutes of all kinds of jobs at 60 % of the capacity",
    "tenants": "how late the jobs of one tenant start while another one floods the workers",
    "growth": "the same with a million jobs and runs (with --full: five million)",
    "events": "what listeners of the event stream cost",
    "cron": "the cron engine",
    "stalls": "how long one request holds the event loop",
    "soak": "ten minutes of half the maximum: memory and tables stay as they are",
}
LONG = ("mixed", "tenants", "stalls", "soak")
"""Sections that are measured only if they are named."""


def main() -> int:
    listed = "\n".join(f"  {name:10} {meaning}" for name, meaning in SECTIONS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"sections:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help="what to measure (by default all but mixed, tenants, stalls and soak)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, measured once: to check that the benchmarks work, not how fast Timeball is",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="include the long ones: five million jobs and runs, the mixed load, the stalls and the soak",
    )
    parser.add_argument("--store", choices=STORES, help="only on this store")
    parser.add_argument("--repeats", "--turns", type=int, help="how often each figure is taken")
    kinds = parser.add_argument_group("kinds", "Options of the section kinds. Without them, it measures everything.")
    kinds.add_argument("--kind", action="append", choices=BY_NAME, help="only this kind of jobs; may be repeated")
    kinds.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    kinds.add_argument("--base", help="a commit that is measured in turns with the working tree")
    kinds.add_argument(
        "--worker",
        choices=("usual", "both"),
        help="the worker only in its usual place, or also in the other one (the latter by default, but not with"
        " --quick)",
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="where to put SECTION.json (bench/results for a whole measurement)"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.sections if name not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]!r}; known are {', '.join(SECTIONS)}")
    selected = (given.store, given.repeats, given.kind, given.part, given.base, given.worker)
    whole = not given.quick and all(each is None for each in selected)
    scale = Scale(
        quick=given.quick,
        full=given.full,
        stores=STORES if given.store is None else (given.store,),
        repeats=given.repeats,
        kinds=tuple(given.kind or ()),
        parts=tuple(given.part or ()),
        base=given.base,
        both_places=given.worker == "both" or (given.worker is None and not given.quick),
    )
    folder: Path | None = given.results or (RESULTS if whole else None)
    for number in (signal.SIGINT, signal.SIGTERM):  # the processes that were started are stopped, however this ends
        signal.signal(number, signal.default_int_handler)
    print(machine.described(), flush=True)
    missed = []
    for name in given.sections or [name for name in SECTIONS if given.full or name not in LONG]:
        try:
            findings = import_module(f"bench.sections.{name}").run(scale)
        except Trouble as trouble:
            print(f"WRONG: {trouble}", flush=True)
            missed.append(name)
            continue
        if not findings.good:
            missed.append(name)
        if folder is not None:
            print(f"written to {recorder.write(findings, folder)}", flush=True)
    print(f"\nMISSED in {', '.join(missed)}: see the tables" if missed else "\nAll promises were kept.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
