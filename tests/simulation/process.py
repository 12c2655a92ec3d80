"""Job processes: separate from their worker, ended by its guard, and with a record outside of the system."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, json

from tests.simulation.inspector import host_in
from tests.simulation.loop import Handle, Micros
from tests.simulation.node import Node
from tests.simulation.records import Witness
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.ports.executor import ExecutorAttempt, OutOfResources
from timeball.worker.attempts import SHORTAGE_PAUSE, STARTED_AFTER

if TYPE_CHECKING:
    from tests.simulation.world import World


class Process:
    """A running job: it ends by itself, by a signal, or by force. It continues while its worker is paused."""

    def __init__(self, world: World, guard: SimulatedGuard, witness: Witness, behaviour: dict[str, Any]) -> None:
        self._world = world
        self._guard = guard
        self._behaviour = behaviour
        self.witness = witness
        self.ended: asyncio.Future[str] = world.loop.create_future()
        rng = world.rng
        length = int(behaviour["length"] * (0.5 + rng.random()))
        fails = rng.random() < behaviour["fails"]
        if behaviour["poison"] and rng.random() < behaviour["poison"]:
            world.after(int(length * rng.random()), self._poison)
        self._how = "failed" if fails else "succeeded"
        self._left = length
        self._going_since = world.now
        self._alarm = world.after(length, self._finish, self._how)

    def suspend(self) -> None:
        """Suspend the process, as SIGSTOP does."""
        if not self.ended.done() and not self.witness.stands_still(self._world.now):
            self._alarm.cancel()
            self._left -= self._world.now - self._going_since
            self.witness.pauses.append((self._world.now, None))
            self._world.trace("stands still", self.witness.run_id, self.witness.token)

    def resume(self) -> None:
        """Resume the process, as SIGCONT does."""
        if not self.ended.done() and self.witness.stands_still(self._world.now):
            self._stood_still()
            self._going_since = self._world.now
            self._alarm = self._world.after(max(0, self._left), self._finish, self._how)
            self._world.trace("goes on again", self.witness.run_id, self.witness.token)

    def _stood_still(self) -> None:
        if self.witness.pauses and self.witness.pauses[-1][1] is None:
            self.witness.pauses[-1] = (self.witness.pauses[-1][0], self._world.now)

    def _finish(self, how: str) -> None:
        """End the process by itself. A host that is unwell answers with errors only."""
        unwell = self._world.rules.host_is_unwell(host_in(self.witness.spec), self._world.now)
        self.end("unwell" if unwell else how)

    def _poison(self) -> None:
        if not self.ended.done():
            self._world.poisoned(self._guard.node)

    def terminate(self) -> None:
        """Send SIGTERM: most processes end soon, some ignore it."""
        self.witness.stopped = True
        if not self._behaviour["stubborn"]:
            self._world.after(self._world.rng.randrange(200_000), self.end, "stopped")

    def end(self, how: str) -> None:
        if self.ended.done():
            return
        witness = self.witness
        witness.end = self._world.now
        self._stood_still()
        witness.how = how
        self._world.trace("end", witness.run_id, witness.attempt, witness.token, how)
        self._guard.processes.pop(witness.token, None)
        self.ended.set_result(how)


class SimulatedGuard:
    """Implements `ports.process_guard.Guard`. It is a process of its own, so neither the death nor a pause of the
    worker stops it.
    """

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self.node = node
        self._deadline: Micros = -1
        self.processes: dict[int, Process] = {}
        self._alarm: Handle | None = None
        node.on_death.append(self.kill_all)

    def renew(self, deadline: Micros) -> None:
        self._deadline = max(self._deadline, deadline)
        if self._alarm is not None:
            self._alarm.cancel()
        left = max(0, self._deadline - self.node.clock.monotonic())
        self._alarm = self._world.after(left, self._lapsed)

    def renew_from_thread(self, deadline: Micros) -> None:
        self.renew(deadline)

    def _lapsed(self) -> None:
        if self.processes:
            self._world.damage.count("guard kills at the deadline")
        self.kill_all()

    @property
    def lapsed(self) -> bool:
        return self.node.clock.monotonic() >= self._deadline

    def kill_all(self) -> None:
        for process in list(self.processes.values()):
            process.end("killed")


SHORTAGES: Final = 0.02
"""The share of attempts that a worker cannot start while faults occur."""
LATE_SHORTAGES: Final = 0.5
"""The share of these in which the worker notices it after it has reported the start."""


class SimulatedExecutor:
    """Implements `ports.executor.Executor` for all kinds. It behaves as the parameters of the job say."""

    def __init__(self, world: World, node: Node, guard: SimulatedGuard, kind: str) -> None:
        self.kind = kind
        self._world = world
        self._node = node
        self._guard = guard

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        world, parameters = self._world, attempt.spec.parameters
        if self._guard.lapsed:
            return Failed(Failure(kind="worker", message="the guard starts nothing after its deadline"))
        rng = Random(attempt.token)
        if not world.weather.fair and rng.random() < SHORTAGES:
            # Before the record: nothing has begun (I29), so this costs no attempt, and no random number is drawn.
            world.damage.spell("worker out of resources", world.now, world.now + 2 * SHORTAGE_PAUSE)
            if rng.random() < LATE_SHORTAGES:
                await asyncio.sleep(2 * STARTED_AFTER / SECOND)  # its start is reported by then
            raise OutOfResources("simulated")
        witness = Witness(
            uid=parameters["uid"],
            rev=parameters["rev"],
            job_id=attempt.job_id,
            run_id=attempt.run_id,
            attempt=attempt.attempt,
            token=attempt.token,
            fire_time=attempt.fire_time,
            worker=self._node.name,
            start=world.now,
            spec=attempt.spec,
        )
        world.witness(witness)
        process = Process(world, self._guard, witness, parameters["behave"])
        self._guard.processes[attempt.token] = process

        def stop() -> None:
            if attempt.grace == 0:
                process.end("killed")
            elif not witness.stopped:
                process.terminate()
                world.loop.call_later(attempt.grace / 1e6, process.end, "killed")

        attempt.log("stdout", f"began {attempt.token}\n")
        attempt.on_cancel(stop)
        if self.kind == "shell":
            attempt.on_pause(process.suspend, process.resume)
        if parameters["behave"]["talks"]:
            attempt.progress(0.5, str(attempt.token))
        how = await process.ended
        attempt.log("stdout", f"ended {attempt.token} {how}\n")
        if how == "succeeded":
            return Succeeded(Raw(json.encode({"token": attempt.token, "attempt": attempt.attempt})))
        if self.kind == "http":
            return Failed(Failure(kind="http", message=how, status=503 if how == "unwell" else 409))
        return Failed(Failure(kind="exit", message=how, exit_code=1))
