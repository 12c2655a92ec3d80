"""The spans of attempts on a worker: `execute`, from the start of an attempt to its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from timeball.domain.run import trace
from timeball.domain.run.lifecycle import Failed
from timeball.domain.run.trace import TraceContext, TraceSpan
from timeball.domain.task.task import kind_of
from timeball.ports.clock import Clock
from timeball.ports.telemetry.tracing import Tracing
from timeball.ports.worker_protocol import Assignment
from timeball.worker.attempt import HeldAttempt


class ExecuteSpans:
    def __init__(self, tracing: Tracing, clock: Clock, worker: str) -> None:
        self._tracing = tracing
        self._clock = clock
        self._worker = worker
        self._parents: dict[int, TraceContext] = {}
        """The position in the trace that the server named, by token."""

    def assigned(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Return the same assignments; those in a sampled trace continue it at the span of their execution, which the
        job gets as its parent.
        """
        return [self._assigned(assignment) for assignment in assignments]

    def _assigned(self, assignment: Assignment) -> Assignment:
        parent = trace.parse(assignment.traceparent)
        if parent is None or not parent.sampled:
            return assignment
        self._parents[assignment.token] = parent
        own = parent.child(trace.execute_span_id(assignment.run_id, assignment.attempt))
        return structs.replace(assignment, traceparent=own.render())

    def ended(self, attempts: Iterable[HeldAttempt]) -> None:
        """Record the execution of attempts whose end the server has stored."""
        now, monotonic = self._tracing.now(), self._clock.monotonic()
        made: list[TraceSpan] = []
        for attempt in attempts:
            parent = self._parents.pop(attempt.token, None)
            if parent is None or attempt.started_at is None:
                continue
            outcome = attempt.outcome
            about: dict[str, str | int] = {
                "timeball.job.id": attempt.job_id,
                "timeball.run.id": attempt.run_id,
                "timeball.attempt": attempt.attempt,
                "timeball.kind": kind_of(attempt.task),
                "timeball.worker": self._worker,
                "timeball.outcome": type(outcome).__name__.lower(),
            }
            made.append(
                trace.span(
                    "execute",
                    parent,
                    trace.execute_span_id(attempt.run_id, attempt.attempt),
                    now - (monotonic - attempt.started_at),
                    now - (monotonic - attempt.ended_at),
                    about,
                    outcome.failure.message if isinstance(outcome, Failed) else "",
                )
            )
        self._tracing.record(made)

    def lost(self, tokens: Iterable[int] | None = None) -> None:
        """Forget attempts that the worker does not hold any more; all of them without `tokens`."""
        if tokens is None:
            self._parents.clear()
        else:
            for token in tokens:
                self._parents.pop(token, None)
