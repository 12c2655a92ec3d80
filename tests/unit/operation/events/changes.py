"""Changes in the form in which the store reports them, and listeners that a test reads without waiting."""

import json
import random
from typing import Any

from timeball.domain.events import EventType
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.task import Shell
from timeball.operation.events.collector import MissingFacts
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.hub import EventHub
from timeball.operation.events.listener import EventListener
from timeball.ports.store.changes import ChangeBatch, JobChange, Recorded, RunChange
from timeball.slices import at_once

TIME = 1_800_000_000 * SECOND
"""The time of the store."""


def job(number: int, *, tenant: str = "a", tags: tuple[str, ...] = (), repeats: bool = False, name: str = "") -> Job:
    spec = JobSpec(name=name or f"job {number}", task=Shell(command="true"), tags=list(tags))
    if repeats:
        spec = JobSpec(name=spec.name, task=spec.task, tags=spec.tags, schedule=Interval(expression="1h"))
    return Job(
        id=f"j_{number}",
        tenant=tenant,
        spec=spec,
        version=1,
        state=JobState.ACTIVE,
        anchor=TIME,
        next_fire_at=None,
        plan_at=None,
        created_at=TIME,
        updated_at=TIME,
    )


def created(made: Job) -> JobChange:
    return JobChange(EventType.JOB_CREATED, made.id, TIME, made)


def change(number: int, status: Status, *, tenant: str = "a", job_id: str = "", **more: Any) -> RunChange:
    return RunChange(f"r_{number}", job_id or f"j_{number}", tenant, status, TIME, **more)


def batch(*changes: Recorded) -> list[ChangeBatch]:
    return [ChangeBatch(len(changes), lambda: changes)]


class Server:
    """A hub with the clock and the publisher of a server, which a test moves by hand."""

    def __init__(self, seed: int = 1) -> None:
        self.now: Micros = 0
        self.hub = EventHub()
        self.wakes = 0
        self.active: list[bool] = []
        self.sent: list[str] = []
        self.hub.on_work = self._woken
        self.hub.on_active = self.active.append
        self._rng = random.Random(seed)

    def _woken(self) -> None:
        self.wakes += 1

    def listen(self, tenant: str = "a", last_id: str = "", **where: Any) -> EventListener:
        filter_ = EventFilter(**where)
        return self.hub.subscribe(tenant, filter_, "k_1", last_id, self.now, self._rng)

    def happen(self, *changes: Recorded) -> None:
        """Commit changes, and let the window pass."""
        self.hub.collect(batch(*changes))
        self.turn()

    def turn(self, length: Micros = SECOND) -> None:
        self.now += length
        self.hub.keep_up(self.now)
        if self.hub.due_in(self.now) == 0:
            self.take()
            self.publish()
        if (message := self.hub.message(self.now)) is not None:
            self.sent.append(message)

    def take(self, time: Micros = TIME) -> MissingFacts:
        return at_once(self.hub.take(time))

    def publish(self) -> None:
        at_once(self.hub.publish(self.now, TIME))

    def tell(self, other: "Server") -> None:
        """Deliver what was sent."""
        messages, self.sent = self.sent, []
        for message in messages:
            assert len(message.encode()) <= 4_096
            other.hub.received(message, other.now, TIME)


def read(listener: EventListener) -> list[dict[str, Any]]:
    """The events that wait for a listener, each with the id and the type of its frame."""
    chunks, listener._chunks = listener._chunks, []
    listener._size = 0
    events = []
    for frame in b"".join(chunks).decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            event = json.loads(fields["data"])
            if fields["event"] != "reset":
                assert (event["id"], event["type"]) == (fields["id"], fields["event"])
            events.append({"frame": fields["id"], "event": fields["event"], **event})
    return events


def types(listener: EventListener) -> list[str]:
    return [event["event"].removeprefix("timeball.") for event in read(listener)]


def last_id(listener: EventListener) -> str:
    """The id that the client of a listener would send to resume."""
    text = b"".join(listener._chunks).decode()
    return [line.removeprefix("id: ") for line in text.split("\n") if line.startswith("id: ")][-1]
