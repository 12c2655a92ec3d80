"""Is this checkout as fast as another? A burst of jobs on both, in turns, so that a noisy machine hurts both.

python -m bench.compare OTHER_CHECKOUT [--pairs 5] [--jobs 10000]

The other checkout needs its own `.venv` (make install-dev). Prints the ratio of each pair, and their median.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from pathlib import Path

from bench import machine
from bench.figures import median

_LINE = re.compile(r"^(\w+) +(\S.*?) {2,}([\d,]+) {3}")
LEAST = 0.95


def measure(checkout: Path, jobs: int) -> dict[tuple[str, str], float]:
    """Jobs per second, by store and kind of worker."""
    command = [checkout / ".venv/bin/python", "-m", "bench.throughput", "--jobs", str(jobs), "--repeats", "1"]
    output = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout
    found = [match.groups() for line in output.splitlines() if (match := _LINE.match(line))]
    return {(store, worker): float(rate.replace(",", "")) for store, worker, rate in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=10_000)
    given = parser.parse_args()
    here, other = Path.cwd(), given.other.resolve()
    print(f"A burst of {given.jobs:,} no-op Python jobs, this checkout against another, in turns")
    print(machine.described())
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for pair in range(given.pairs):
        order = (here, other) if pair % 2 else (other, here)
        rates = {checkout: measure(checkout, given.jobs) for checkout in order}
        for kind, rate in rates[here].items():
            ratios[kind].append(rate / rates[other][kind])
        shown = ", ".join(f"{store}/{worker} {found[-1]:.2f}" for (store, worker), found in ratios.items())
        print(f"pair {pair + 1}: {shown}", flush=True)
    everything = median([ratio for found in ratios.values() for ratio in found])
    for (store, worker), found in ratios.items():
        print(f"{store:14}{worker:24}{median(found):6.2f}   {' '.join(f'{ratio:.2f}' for ratio in found)}")
    print(f"median ratio {everything:.2f}" + ("" if everything >= LEAST else f": below {LEAST}"))
    return 0 if everything >= LEAST else 1


if __name__ == "__main__":
    raise SystemExit(main())
