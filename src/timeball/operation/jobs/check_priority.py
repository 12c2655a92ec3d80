"""Check the priority of a job against the highest one that its tenant may use."""

from __future__ import annotations

from timeball.domain.dispatch import priority
from timeball.domain.errors import Invalid
from timeball.domain.job.job import JobSpec, workflow_of
from timeball.operation.known_limits import KnownLimits


def refused_priority(limits: KnownLimits, tenant: str, spec: JobSpec, old: JobSpec | None = None) -> Invalid | None:
    """Return the error for a priority above the highest one of the tenant; None if there is none. A priority that the
    job had before (`old`) stays allowed."""
    if (highest := limits.of(tenant).max_priority) is None:
        return None
    allowed = set() if old is None else set(_levels(old).values())
    for pointer, level in _levels(spec).items():
        if level > highest and level not in allowed:
            return Invalid(
                f"the priority {level} is above {highest}, the highest that this tenant may use; a job that names none"
                f" has {priority.NAMES['medium']}",
                pointer,
            )
    return None


def _levels(spec: JobSpec) -> dict[str, int]:
    """Return the priorities of a job and of the tasks of a workflow, by their JSON pointers."""
    tasks = {
        f"/task/tasks/{place}/priority": priority.level(task.priority)
        for place, task in enumerate(workflow_of(spec))
        if task.priority is not None
    }
    return {"/priority": spec.level, **tasks}
