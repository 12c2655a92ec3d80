"""A job, as the API answers it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timeball.client.models.answer import Answer


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
