"""An edit of one run: the differences between a retry or replay and the original run. The job stays unchanged."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.job.job import JobSpec
from timeball.domain.task.retry import Backoff, MaxRetries, NonRetryable, Retry
from timeball.domain.task.task import DEFAULT_GRACE, Task, check_duration


class RetryEdit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Changes of retry rules. Rules that are not given stay unchanged."""

    max_retries: MaxRetries | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    base: Duration | UnsetType = UNSET
    cap: Duration | UnsetType = UNSET
    non_retryable: NonRetryable | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.apply(Retry())

    def apply(self, rules: Retry) -> Retry:
        return Retry(**{**msgspec.structs.asdict(rules), **_given(self)})


class Edit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Changes of one run. Fields that are not given stay unchanged. Parameters and retry rules are merged name by name;
    a task is replaced. A parameter that is null is removed; any other field that is null gets its default."""

    task: Task | UnsetType = UNSET
    task_id: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET
    timeout: Duration | UnsetType | None = UNSET
    grace: Duration | UnsetType | None = UNSET
    retry: RetryEdit | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if not _given(self):
            raise ValueError("the edit changes nothing; give parameters, task, taskId, timeout, grace or retry")
        if self.task is not UNSET and self.task_id is not UNSET:
            raise ValueError("the edit names two tasks; give either a task or the taskId of a registered task")
        if self.timeout is not UNSET:
            check_duration("timeout", self.timeout, shortest=1)
        if self.grace is not UNSET:
            check_duration("grace", self.grace)

    def apply(self, spec: JobSpec) -> JobSpec:
        """Return the spec with these changes. Each change was checked when the edit was created, and changes do not
        depend on each other. Raise `Invalid` if the job is a workflow and a change belongs to its tasks."""
        changes = _given(self)
        if self.task is not UNSET:
            changes["task_id"] = None
        if self.task_id is not UNSET:
            changes["task"] = None
        if self.parameters is not UNSET:
            merged = {**spec.parameters, **self.parameters}
            changes["parameters"] = {name: value for name, value in merged.items() if value is not None}
        if self.grace is None:
            changes["grace"] = DEFAULT_GRACE
        if self.retry is not UNSET:
            changes["retry"] = Retry() if self.retry is None else self.retry.apply(spec.retry)
        try:
            return msgspec.structs.replace(spec, **changes)
        except ValueError as error:
            name, _, detail = str(error).partition(": ")
            raise Invalid(detail, f"/edit/{name}") from None


def _given(edit: Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(edit).items() if value is not UNSET}
