"""Decodes assignments into the task, the executor and the slots that they need. Small specs are cached, so that equal
ones are decoded once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from timeball.domain import duration
from timeball.domain.dispatch.slot_pools import SlotPools
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import JobSpec, decode_spec
from timeball.domain.run.lifecycle import INVALID, Failed, Failure, Released
from timeball.domain.task import http_headers
from timeball.domain.task.task import Http, Python, Task, host_of, kind_of
from timeball.domain.workflow.definition import Workflow
from timeball.ports.executor import BackgroundExecutor, Executor
from timeball.ports.worker_protocol import Assignment

REMEMBERED: Final = 1_000
"""Maximum number of decoded assignments in the cache. Runs of one job, and of similar jobs, have the same spec."""
MAX_REMEMBERED_LENGTH: Final = 4_096
"""Maximum number of bytes of a spec that is cached."""

REFUSED_KIND_DELAY: Final = 5 * SECOND
"""Microseconds before a run of a kind that this worker does not accept may be assigned again, to another worker."""

_CHANGEABLE: Final = frozenset({dict, list})
_UNREAD: Final = Python(function="unread")
_decode_task: Final[msgspec.json.Decoder[Task]] = msgspec.json.Decoder(Task)


class AssignedWork(Struct, frozen=True):
    """A decoded assignment: what to execute, and with which resources. Attempts with equal specs share it, so it is
    never changed.
    """

    spec: JobSpec
    task: Task
    executor: Executor | None
    """None: this worker cannot execute the task; `unfit` has the reason."""
    background: BackgroundExecutor | None = None
    """The same executor, if it executes the task outside of the event loop."""
    unfit: Failed | Released | None = None
    slots: int = 1
    """Number of the worker's slots that the attempt occupies."""
    timeout: Micros | None = None
    host: str | None = None
    """The host and port that the task calls, for the circuit breaker of that host."""
    pool: str | None = None
    """The pool of the worker in which the attempt occupies slots as well; None: it occupies none."""


class Reader:
    """Decodes assignments. An assignment that this worker cannot execute is decoded to a failure or a release."""

    def __init__(
        self,
        executors: Mapping[str, Executor],
        kinds: Collection[str] | None = None,
        pools: SlotPools | None = None,
    ) -> None:
        """`kinds` are the task kinds that this worker accepts; None accepts all. `pools` are the pools of its slots."""
        self._executors = executors
        self._pools = SlotPools(()) if pools is None else pools
        self._kinds = kinds
        self._known: dict[tuple[bytes, bytes | None], AssignedWork] = {}

    def read(self, assignment: Assignment) -> AssignedWork:
        asked = bytes(assignment.spec), None if assignment.task is UNSET else bytes(assignment.task)
        work = self._known.get(asked)
        if work is None:
            work = self._understand(*asked)
            if len(asked[0]) <= MAX_REMEMBERED_LENGTH and _is_flat(work.spec.parameters):
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[asked] = work
        return work

    def _understand(self, spec_json: bytes, task_json: bytes | None) -> AssignedWork:
        try:
            spec = decode_spec(spec_json)
            task = spec.task if task_json is None else _decode_task.decode(task_json)
        except msgspec.MsgspecError as error:
            return _unfit(f"this worker cannot read the job, its version may be too old: {error}")
        if task is None:
            return _unfit(f"the task {spec.task_id!r} is no longer registered")
        if isinstance(task, Workflow):
            return _unfit("a worker executes the tasks of a workflow, not the workflow itself")
        kind = kind_of(task)
        if self._kinds is not None and kind not in self._kinds:
            # Servers do not assign a kind that the worker did not register. If one arrives nevertheless, it is not
            # executed here.
            return AssignedWork(
                spec=spec, task=task, executor=None, unfit=Released(REFUSED_KIND_DELAY), slots=_slots(spec)
            )
        executor = self._executors.get(kind)
        if executor is None:
            offer = ", ".join(self._executors) or "none"
            return _unfit(f"this worker has no executor for {kind!r} tasks; it has: {offer}", spec, task)
        if isinstance(task, Http) and (fault := http_headers.unsendable(task.headers)) is not None:
            return _unfit(f"{fault.detail}; update the job", spec, task, kind=INVALID)
        background = executor if isinstance(executor, BackgroundExecutor) else None
        return AssignedWork(
            spec=spec,
            task=task,
            executor=executor,
            background=background if background is not None and background.in_background(task) else None,
            slots=_slots(spec),
            timeout=None if spec.timeout is None else duration.parse(spec.timeout),
            host=host_of(task),
            pool=self._pools.of(kind, task.function if isinstance(task, Python) else None),
        )


def _is_flat(parameters: Mapping[str, object]) -> bool:
    """True if no parameter is a dict or a list. A function could change such a value, and the next run would see it."""
    return _CHANGEABLE.isdisjoint(map(type, parameters.values()))


def _slots(spec: JobSpec) -> int:
    return 1 if spec.resources is None else spec.resources.slots


def _unfit(message: str, spec: JobSpec | None = None, task: Task = _UNREAD, *, kind: str = "worker") -> AssignedWork:
    failed = Failed(Failure(kind=kind, message=message))
    spec = JobSpec(task=task) if spec is None else spec
    return AssignedWork(spec=spec, task=task, executor=None, unfit=failed, slots=_slots(spec))
