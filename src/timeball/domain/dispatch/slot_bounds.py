"""How many runs a worker executes at the same time: one number for all, or a number for each kind of work.

A coroutine or an HTTP call waits most of its time, so a worker can execute hundreds of them. A thread costs a stack and
waits for the lock of the interpreter, and a process costs memory and a CPU.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

DEFAULT_SLOTS: Final = 500
"""Number of slots of a worker without a configured number. Coroutines and HTTP calls may take all of them."""
DEFAULT_THREADS: Final = 100
"""Number of runs in threads, on a worker without a configured number of slots."""
PROCESSES_PER_CPU: Final = 8
"""Number of runs in processes for each CPU, on a worker without a configured number of slots. Most commands wait for a
disk or another machine, and a short one takes less time than its assignment and its report: with four for each CPU,
short functions in processes ran at a third of the rate. Many more would take memory, and delay each other."""
MIN_PROCESSES: Final = 32


class SlotBounds(NamedTuple):
    """The maximum numbers of runs that a worker executes at the same time."""

    slots: int
    """The maximum number of all runs."""
    threads: int
    """The maximum number of runs in threads: plain Python functions."""
    processes: int
    """The maximum number of runs in processes: commands, scripts, and Python functions with `mode="process"`."""

    @classmethod
    def all_alike(cls, slots: int) -> SlotBounds:
        """Return the bounds of a worker with a configured number of slots: runs of any kind may take all of them."""
        return cls(slots, slots, slots)

    @classmethod
    def usual(cls, cpus: float, most: int = DEFAULT_SLOTS) -> SlotBounds:
        """Return the bounds of a worker without a configured number of slots, on a machine with this number of CPUs.
        `most` is the number of slots for which the machine has enough file descriptors."""
        slots = min(DEFAULT_SLOTS, most)
        processes = max(MIN_PROCESSES, math.ceil(PROCESSES_PER_CPU * cpus))
        return cls(slots, min(DEFAULT_THREADS, slots), min(processes, slots))

    def share(self, workers: int) -> SlotBounds:
        """Return the bounds of each of several workers that divide these bounds equally, rounded up."""
        return SlotBounds(*(-(-each // workers) for each in self))
