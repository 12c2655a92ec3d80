"""The options of a job, and the answer with a job. A new field of a job is added to both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from timeball.client.models.model import Model

Length = str | int | timedelta
"""A length of time: `"15m"`, a number of seconds, or a timedelta."""


class JobOptions(TypedDict, total=False):
    """All options of a job. What to run: one of `task`, `task_id`, `shell`, `http`, `script`, `python`. When: at most
    one of `schedule`, `cron`, `every`, `at`, `window`, `follow`; without one, the job runs at once. In an update, None
    removes an option."""

    name: str
    description: str
    task: Mapping[str, Any] | Callable[..., Any]
    """The canonical JSON of a task, or a function with `@timeball.task`."""
    task_id: str
    shell: str | Sequence[str]
    """A command for `sh -c`, or an argv list."""
    http: str
    """A URL, which gets a POST with the parameters. For other requests, use `task` with the kind `http`."""
    script: str
    python: str
    """The name of a function that `@timeball.task` registered."""
    parameters: Mapping[str, Any]
    schedule: Mapping[str, Any]
    cron: str
    every: Length
    at: datetime | str
    window: str | Mapping[str, Any]
    """`"01:00-05:00"`, or `{"from": "01:00", "to": "05:00", "days": ["MON"]}`: the job fires once a day in this range,
    at a minute that the server chooses."""
    follow: str
    """Another job, by its id or by its unique name. The job fires after each run of that job that ends as `on` says."""
    on: Literal["succeeded", "failed", "finished"]
    """The ends of runs that count for `follow`. Default: `succeeded`."""
    timezone: str
    """Time zone of `cron` or `window`. Default: UTC."""
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
    """No fire before this time. The intervals of `every` are counted from here."""
    end_at: datetime | str | None
    max_runs: int | None
    """The schedule ends after this many fires."""
    jitter: Length | None
    """Each fire starts later by up to this length of time."""
    start_deadline: Length | None
    """A run that has not started this long after its fire time is skipped."""
    ordering_key: str | None
    """Runs with the same key execute one after the other, in the order of their fire times."""
    on_failure: Literal["block", "continue"]
    """`block`: if a run ends as failed or dead, later runs with the same ordering key wait until it is retried or
    discarded. `continue`: the next run starts."""
    concurrency: Mapping[str, Any] | None
    """`{"key": "db", "limit": 5}`: at most 5 runs with this key execute at the same time."""
    rate_limit: Mapping[str, Any] | None
    """`{"key": "mails", "limit": 100, "per": "1m", "burst": 10}`: at most 100 runs with this key start per minute, and
    10 at once."""
    resources: Mapping[str, Any] | None
    """`{"cpu": 2, "memoryMb": 512, "slots": 1}`: the resources of a worker that a run uses."""
    runs_on: Sequence[str] | None
    """Labels that a worker needs to execute the runs."""
    calendars: Sequence[str] | None
    """Names of calendars. The job does not fire while one of them is closed."""
    excluded: Literal["skip", "next_open"]
    """`skip`: fires in closed times are skipped. `next_open`: one run replaces them when the calendars open."""
    delivery: Literal["at_least_once", "at_most_once"]
    """`at_most_once`: an attempt that may have had an effect is never repeated."""
    preemptible: bool
    result_location: str | None
    """A folder in the object storage in which all results are stored, such as `reports/daily`."""
    slo: Mapping[str, Any] | None
    """`{"startWithin": "5s", "objective": 99.9}`: 99.9 % of the runs have to start within 5 s after they are due."""
    tags: Sequence[str]
    user_id: str
    idempotency_key: str
    """Two requests with the same key create one job."""


class Job(Model, frozen=True):
    """A job as the API returns it."""

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
    """The time of day that the server chose within the window of the job."""
    calendars: list[str] = []
    excluded: str | None = None
    delivery: str = "at_least_once"
    preemptible: bool = False
    result_location: str | None = None
    slo: dict[str, Any] | None = None
    tags: list[str] = []
    user_id: str = ""
    pause_reason: str = ""
    paused_until: datetime | None = None
    """The time at which the job is resumed automatically."""
    warnings: list[str] = []
    """In the answer to a create or an update, for example: no live worker can execute the job. When a job is read: why
    it cannot be planned."""
