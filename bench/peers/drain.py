"""One measurement: fill the backlog, start the workers, and measure the time until no job is left.

The time counts from the first call of a job, so that starting an interpreter costs no peer anything (earlier, if the
peer fetches more than a hundredth of the backlog before it executes any of it), until the store has no job left, so
that the last result is as durable as the peer makes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.machine import loop_ms
from bench.peers.catalogue import Peer
from bench.peers.install import command
from bench.peers.stores import Store, scratch, store
from bench.processes import cpu_seconds

FILLING = 600.0
STARTING = 60.0
DRAINING = 90.0
STOPPING = 15.0
STEPS = 100
"""How often a worker reports its progress. The store is queried only in the last of these steps."""


class PeerError(RuntimeError):
    """Raised if the peer does not fill, start or drain as expected. The message ends with its output."""


@dataclass(frozen=True)
class Drain:
    backlog: int
    done: int
    seconds: float
    cpu_seconds: float
    """CPU time of the workers and the store together during the drain. It varies less than the clock when the machine
    is busy.
    """
    calls: int
    """How often the function of a job was called, as counted by the workers until they stopped."""
    loop_ms: tuple[float, float]
    """The speed of the machine before and after."""

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    @property
    def cpu_us_per_job(self) -> float:
        return self.cpu_seconds / max(1, self.done) * 1e6


def drain(peer: Peer, jobs: int, redis_fsync: str) -> Drain:
    jobs = min(jobs, peer.most)
    program = command(peer)
    with scratch() as name, store(peer.store, Path(name), redis_fsync) as kept:
        bench = _Bench(peer, jobs, program, Path(name), kept)
        bench.fill()
        before = loop_ms()
        with bench.workers():
            seconds, spent, left = bench.watch()
        return Drain(jobs, jobs - left, seconds, spent, bench.calls(), (before, loop_ms()))


class _Bench:
    def __init__(self, peer: Peer, jobs: int, program: list[str], folder: Path, kept: Store) -> None:
        self._peer = peer
        self._jobs = jobs
        self._program = program
        self._store = kept
        self._step = max(1, jobs // STEPS)
        self._witness = folder / "witness"
        self._log = folder / "log"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = os.environ | {
            "PEER_STORE": kept.url,
            "PEER_FOLDER": str(folder),
            "PEER_WITNESS": str(self._witness),
            "PEER_STEP": str(self._step),
        }

    def fill(self) -> None:
        if not self._peer.left:
            return
        process = self._start(["fill", str(self._jobs)])
        try:
            process.wait(FILLING)
        except subprocess.TimeoutExpired:
            raise self._error(f"the backlog was not filled within {FILLING:g} s") from None
        finally:
            _stop(process)
        if process.returncode != 0 or self._left() != self._jobs:
            raise self._error("the backlog was not filled")
        self._witness.unlink(missing_ok=True)  # written by workers only
        self._store.settle()

    @contextlib.contextmanager
    def workers(self) -> Iterator[None]:
        arguments = ["work", *self._peer.arguments, *([] if self._peer.left else [str(self._jobs)])]
        try:
            for _ in range(self._peer.processes):
                self._processes.append(self._start(arguments))
            yield
        finally:
            for process in self._processes:
                _stop(process)

    def watch(self) -> tuple[float, float, int]:
        """Return the wall time, the CPU time, and the number of jobs that are left: none, unless it took too long."""
        started = self._await_begin()
        spent = self._cpu_seconds()
        # A worker reports only whole steps; after the last one, only the store knows the progress.
        silent = self._peer.witnesses * self._step if self._peer.left else 1
        while time.monotonic() - started < DRAINING:
            if self._jobs - self._count(2) < silent:
                asked = time.monotonic()
                if self._left() == 0:
                    return asked - started, self._cpu_seconds() - spent, 0
                time.sleep(2 * (time.monotonic() - asked))
            self._check_alive()
            time.sleep(0.005)
        elapsed = time.monotonic() - started
        return elapsed, self._cpu_seconds() - spent, self._left()

    def calls(self) -> int:
        return self._count(1)

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._program, *arguments], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def _await_begin(self) -> float:
        deadline = time.monotonic() + STARTING
        while not self._lines():
            self._check_alive()
            if time.monotonic() > deadline:
                raise self._error(f"no job was executed within {STARTING:g} s")
            time.sleep(0.005)
        return time.monotonic()

    def _count(self, column: int) -> int:
        """Return the sum of the counts in the last lines of the workers: calls (1) or jobs (2)."""
        return sum({line[0]: line[column] for line in self._lines()}.values())

    def _lines(self) -> list[list[int]]:
        if not self._witness.exists():
            return []
        return [[int(number) for number in line.split()] for line in self._witness.read_text().splitlines()]

    def _left(self) -> int:
        if not self._peer.left:
            return self._jobs - self._count(2)
        return sum(self._store.ask(question) for question in self._peer.left)

    def _cpu_seconds(self) -> float:
        pids = [process.pid for process in self._processes] + ([self._store.pid] if self._store.pid else [])
        return sum(cpu_seconds(pid, family=True) for pid in pids)

    def _check_alive(self) -> None:
        if any(process.poll() is not None for process in self._processes):
            raise self._error("a worker ended early")

    def _error(self, what: str) -> PeerError:
        return PeerError(f"{self._peer.name}: {what}\n{self._log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the process with a signal, then by force, with everything that it started, which is in a session
    of its own.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOPPING)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
