"""I7, I8, I29: a worker whose event loop is blocked by a job for longer than a lease keeps its attempts.

The worker, its guard, the job processes and the blocked loop are real; only the server is played, with a short lease.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.fake_worker_protocol import FakeDispatch, assignment, python
from timeball.bootstrap.heartbeat_thread import Standby
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.shell import ShellExecutor
from timeball.ports.executor import ExecutorAttempt
from timeball.ports.worker_protocol import Beat, RegisterWorker, SessionLost
from timeball.system import SystemClock, rng
from timeball.worker.worker import Worker

pytestmark = pytest.mark.timeout(300)

LEASE = 2 * SECOND
BLOCKED = 3.5
"""Seconds: well beyond the lease."""


class Blocking:
    """Python functions that block the event loop."""

    kind = "python"

    def execute(self, attempt: ExecutorAttempt) -> Awaitable[Outcome]:
        return self._block()

    async def _block(self) -> Outcome:
        time.sleep(BLOCKED)  # noqa: ASYNC251 (that is the point)
        return Succeeded()


class Renewals:
    """The server as the thread sees it: it renews, unless it is told not to."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.knows = True

    async def beat(self, beat: Beat) -> None:
        if not self.knows:
            raise SessionLost(beat.session)
        self.beats.append(beat)


class Scene:
    def __init__(self) -> None:
        self.server = FakeDispatch(lease=LEASE, beat_every=400 * MILLISECOND)
        self.renewals = Renewals()
        self.guard = ProcessGuard()
        shell = ShellExecutor(Processes(self.guard))
        self.worker = Worker(
            self.server,
            {"python": Blocking(), "shell": shell},
            SystemClock(),
            RegisterWorker(name="w", slots=9),
            rng=rng(),
            guard=self.guard,
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Renewals]:
        yield self.renewals

    async def run_beside_a_blocked_loop(self, folder: Path, **limits: str) -> Path:
        """A shell job of six seconds that counts its starts and ends, and then a function that blocks the loop."""
        lines = folder / "lines"
        command = f"echo start >> {lines}; sleep 5; echo end >> {lines}"
        self.server.give(assignment(1, {"kind": "shell", "command": command}, **limits))
        await self.server.until(lambda: lines.exists() and bool(self.server.beats))
        self.server.give(python(2, "block"))
        return lines


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.worker.start()
    standby = Standby(scene.worker, scene.connect, 100 * MILLISECOND)
    try:
        yield scene
    finally:
        standby.close()
        await scene.worker.stop()
        await scene.guard.close()


async def test_a_job_beside_a_blocked_loop_runs_once_and_is_not_killed(scene: Scene, tmp_path: Path) -> None:
    lines = await scene.run_beside_a_blocked_loop(tmp_path)
    await scene.server.until(lambda: len(scene.server.ended) == 2)
    assert {token: ended.outcome for token, ended in scene.server.ended.items()} == {1: Succeeded(), 2: Succeeded()}
    assert lines.read_text() == "start\nend\n"
    assert len(scene.server.hellos) == 1, "the session was never lost"
    assert scene.renewals.beats, "the thread renewed it"
    assert {beat.session for beat in scene.renewals.beats} == {"w_1"}
    assert all(1 in beat.held for beat in scene.renewals.beats)


async def test_a_lease_that_the_server_does_not_renew_still_ends_everything_in_time(
    scene: Scene, tmp_path: Path
) -> None:
    """The guard kills when the lease has passed, whatever the loop or the thread would say."""
    scene.renewals.knows = False
    lines = await scene.run_beside_a_blocked_loop(tmp_path)
    await scene.server.until(lambda: len(scene.server.hellos) == 2)
    assert lines.read_text() == "start\n"
    assert not scene.server.ended, "what a lost session had is not reported"


async def test_no_lease_is_renewed_for_an_attempt_that_nothing_stops(scene: Scene, tmp_path: Path) -> None:
    """Its timeout and grace are over, and the loop that would stop it is blocked: the guard does, with the lease."""
    lines = await scene.run_beside_a_blocked_loop(tmp_path, timeout="500ms", grace="100ms")
    await scene.server.until(lambda: len(scene.server.hellos) == 2)
    assert lines.read_text() == "start\n"


async def test_a_loop_that_turns_needs_no_thread(scene: Scene) -> None:
    beats = len(scene.server.beats)
    await scene.server.until(lambda: len(scene.server.beats) > beats + 3)
    assert scene.worker.beat_for_stalled_loop() is None
    assert not scene.renewals.beats
