"""A job: what may be said of one, and what the API answers. A new field of a job stands in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from timeball.client.models.answer import Answer

Length = str | int | timedelta
"""`"15m"`, seconds, or a timedelta."""


class JobOptions(TypedDict, total=False):
    """Everything that may be said of a job. What to run: one of `task`, `task_id`, `shell`, `http`, `script`,
    `python`. When: at most one of `schedule`, `cron`, `every`, `at`, `window`, `follow`; at once without any. In an
    update, None takes away what the job has."""

    name: str
    description: str
    task: Mapping[str, Any] | Callable[..., Any]
    """The canonical JSON of a task, or a function made with `@timeball.task`."""
    task_id: str
    shell: str | Sequence[str]
    """A command for `sh -c`, or an argv list."""
    http: str
    """A URL; the request is a POST with the parameters. For more, give `task` with kind `http`."""
    script: str
    python: str
    """The name of a registered function."""
    parameters: Mapping[str, Any]
    schedule: Mapping[str, Any]
    cron: str
    every: Length
    at: datetime | str
    window: str | Mapping[str, Any]
    """`"01:00-05:00"`, or `{"from": "01:00", "to": "05:00", "days": ["MON"]}`: daily, in a slot of its own."""
    follow: str
    """Another job, by its id, or by its name if no other has it: after each of its runs that ends as `on` says."""
    on: Literal["succeeded", "failed", "finished"]
    """Which ends of `follow` count; those that succeeded without it."""
    timezone: str
    """Of `cron` or `window`; UTC without it."""
    dst_gap: Literal["run", "skip"]
    dst_overlap: Literal["first", "both"]
    retry: Mapping[str, Any]
    max_retries: int
    priority: Literal["high", "medium", "low"] | int
    timeout: Length | None
    grace: Length
    overlap: Literal["allow", "skip", "queue", "queue_one", "cancel_previous", "terminate_previous"]
    catch_up: Literal["all", "last", "none"]
    catch_up_window: Length
    start_at: datetime | str | None
    """No fire before; the grid of `every` starts here."""
    end_at: datetime | str | None
    max_runs: int | None
    """The schedule ends after this many fires."""
    jitter: Length | None
    """Each fire starts up to this much later."""
    start_deadline: Length | None
    """What has not started this long after its time is skipped."""
    ordering_key: str | None
    """Runs with the same key go strictly one after the other, in the order of their fire times."""
    on_failure: Literal["block", "continue"]
    """Whether the runs behind one that gave up wait until it is retried or discarded."""
    concurrency: Mapping[str, Any] | None
    """`{"key": "db", "limit": 5}`: at most so many runs with this key at once."""
    rate_limit: Mapping[str, Any] | None
    """`{"key": "mails", "limit": 100, "per": "1m", "burst": 10}`: starts of runs with this key."""
    resources: Mapping[str, Any] | None
    """`{"cpu": 2, "memoryMb": 512, "slots": 1}`: what a run takes of its worker."""
    runs_on: Sequence[str] | None
    """Labels that a worker must have."""
    calendars: Sequence[str] | None
    """No fire while one of these is closed."""
    excluded: Literal["skip", "next_open"]
    """What becomes of such fires: nothing, or one for all of them when the calendars open."""
    delivery: Literal["at_least_once", "at_most_once"]
    """`at_most_once`: an attempt that may have done something is never repeated."""
    preemptible: bool
    result_location: str | None
    """A folder of the object storage in which all results are kept: `reports/daily`."""
    tags: Sequence[str]
    user_id: str
    idempotency_key: str
    """Two requests with one key make one job."""


class Job(Answer, frozen=True):
    job_id: str
    name: str = ""
    status: str = ""
    """`scheduled`, `paused`, `completed` or `cancelled`."""
    version: int = 1
    next_fire_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    description: str = ""
    task: dict[str, Any] | None = None
    task_id: str | None = None
    parameters: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    priority: str | int = "medium"
    timeout: str | int | None = None
    grace: str | int | None = None
    overlap: str = "queue"
    catch_up: str = "all"
    catch_up_window: str | int = "1h"
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    jitter: str | int | None = None
    start_deadline: str | int | None = None
    ordering_key: str | None = None
    on_failure: str = "block"
    concurrency: dict[str, Any] | None = None
    rate_limit: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    runs_on: list[str] = []
    slot: str | None = None
    """The time of day that it got in its window."""
    calendars: list[str] = []
    excluded: str | None = None
    delivery: str = "at_least_once"
    preemptible: bool = False
    result_location: str | None = None
    tags: list[str] = []
    user_id: str = ""
    pause_reason: str = ""
    paused_until: datetime | None = None
    """When it is resumed by itself."""
    warnings: list[str] = []
    """In the answer to a create or an update: that no worker which is alive could run it, for example."""
