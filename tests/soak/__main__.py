"""Attacks of unauthenticated and authenticated clients beside honest work: `make soak`.

make soak [MINUTES=20] [ARGS="--store sqlite"]

Half of the time on each store. Phases with and without attackers alternate while honest clients submit jobs at a steady
rate. Passes when no honest job is lost or doubled and none spends a second attempt, when starts are not much later in
the phases with attackers than in those without, and when the memory of every process stays bounded and flat.
Exit code 0: passed; 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.soak.campaign import STORES, Sizes, campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=STORES, help="only on this store")
    parser.add_argument("--minutes", type=float, default=20.0, help="in all (default 20)")
    parser.add_argument("--rate", type=float, default=200.0, help="honest jobs per second (default 200)")
    parser.add_argument("--phase", type=float, default=60.0, help="seconds of one phase (default 60)")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # every process that was started is stopped, however this ends
        signal.signal(number, signal.default_int_handler)
    stores = [given.store] if given.store else list(STORES)
    pairs = max(1, round(given.minutes * 60 / len(stores) / given.phase / 2))
    sizes = Sizes(pairs=pairs, phase=given.phase, rate=given.rate)
    passed = True
    for store in stores:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="timeball-soak-")))
            report = campaign(store, folder, sizes)
        print(report)
        for problem in report.problems():
            passed = False
            print(f"  PROBLEM: {problem}")
        sys.stdout.flush()
    print("\nPASSED" if passed else "\nNOT PASSED: see the problems above")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
