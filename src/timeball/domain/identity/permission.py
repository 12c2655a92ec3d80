"""What a route requires of the caller of a request."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """The permission that a route needs."""

    PUBLIC = "public"
    """No credential is needed."""
    READ = "read"
    """See jobs, runs, output and the workers that serve the tenant."""
    RUN = "run"
    """Run, cancel, retry, replay, pause and resume what is defined."""
    EDIT = "edit"
    """Define what is executed: jobs, workflows, tasks and calendars."""
    ADMIN = "admin"
    """Manage the keys and the users of the tenant."""
    SYSTEM = "system"
    """Manage tenants and the whole fleet."""
    METRICS = "metrics"
    """Read the metrics of servers, which count the runs of all tenants."""
    WORKER = "worker"
    """Send messages of the worker protocol."""
    KEY = "key"
    """Any valid credential."""


OF_ALL: Final = frozenset({Permission.PUBLIC, Permission.KEY})
"""Permissions of every valid credential, whatever its role and its scopes are."""
