"""The spans of attempts on a server: `fire`, from the time at which a run is due to its claim; `claim`, until the
answer to the worker's poll is ready; `settle`, from the report of the worker to the commit of the outcome.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from msgspec import structs

from timeball.domain.errors import Unavailable
from timeball.domain.instant import Micros
from timeball.domain.run import trace
from timeball.domain.run.lifecycle import Failed
from timeball.domain.run.trace import TraceContext, TraceSpan
from timeball.ports.store.runs import Claim
from timeball.ports.store.workflows import WorkflowStore
from timeball.ports.telemetry.tracing import Tracing
from timeball.ports.worker_protocol import Ended


class AttemptSpans:
    def __init__(self, tracing: Tracing, store: WorkflowStore) -> None:
        self._tracing = tracing
        self._store = store

    async def claimed(self, claims: Sequence[Claim], claimed_at: Micros) -> list[Claim]:
        """Record that these runs were claimed. Return the same claims; those in a sampled trace continue it at the span
        of their claim. A run that continues no trace begins one, and a task of a workflow belongs to that of its
        workflow run.
        """
        tasks = [claim.run_id for claim in claims if claim.serial and claim.traceparent is None]
        workflow_runs: dict[str, str] = {}
        if tasks:
            with contextlib.suppress(Unavailable):  # a claimed run has to reach its worker, whatever its trace
                workflow_runs = await self._store.workflow_runs_of(tasks)
        made: list[TraceSpan] = []
        now = self._tracing.now()
        claims = [self._claimed(claim, workflow_runs.get(claim.run_id), claimed_at, now, made) for claim in claims]
        self._tracing.record(made)
        return claims

    def _claimed(
        self, claim: Claim, workflow_run: str | None, claimed_at: Micros, now: Micros, made: list[TraceSpan]
    ) -> Claim:
        context = trace.parse(claim.traceparent) or self._begun(workflow_run or claim.run_id)
        if not context.sampled:
            return claim
        about = _attributes(claim) | ({} if workflow_run is None else {"timeball.workflow_run.id": workflow_run})
        name = f"{claim.run_id}/{claim.attempt}"
        fire = trace.span_id_of(f"{name}/fire")
        made.append(
            trace.span("fire", context, fire, min(claim.eligible_at, claimed_at), claimed_at, about | _fire(claim))
        )
        context = context.child(fire)
        span_id = trace.span_id_of(f"{name}/claim")
        made.append(trace.span("claim", context, span_id, claimed_at, now, about))
        return structs.replace(claim, traceparent=context.child(span_id).render())

    def _begun(self, name: str) -> TraceContext:
        trace_id = trace.trace_id_of(name)
        return TraceContext(trace_id, None, self._tracing.samples(trace_id))

    def settled(self, attempts: Iterable[Ended], arrived_at: Micros) -> None:
        """Record that the outcomes of these attempts, in a report that arrived at this time, are stored."""
        now = self._tracing.now()
        made = []
        for ended in attempts:
            context = trace.parse(ended.traceparent)
            if context is not None and context.sampled:
                about = _attributes(ended) | {"timeball.outcome": type(ended.outcome).__name__.lower()}
                error = ended.outcome.failure.message if isinstance(ended.outcome, Failed) else ""
                span_id = trace.span_id_of(f"{ended.run_id}/{ended.attempt}/settle")
                made.append(trace.span("settle", context, span_id, arrived_at, now, about, error))
        self._tracing.record(made)


def _attributes(attempt: Claim | Ended) -> dict[str, str | int]:
    return {
        "timeball.job.id": attempt.job_id,
        "timeball.run.id": attempt.run_id,
        "timeball.attempt": attempt.attempt,
    }


def _fire(claim: Claim) -> dict[str, str | int]:
    return {"timeball.tenant": claim.tenant, "timeball.fire_time": claim.fire_time}
