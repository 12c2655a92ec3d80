"""Answers about registered tasks, calendars, API keys, users, tenants and usage."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from msgspec import field

from timeball.client.models.model import Model


class Task(Model, frozen=True):
    """A task registered under a name."""

    task_id: str
    task: dict[str, Any] = {}
    version: int = 1
    updated_at: datetime | None = None


class Tasks(Model, frozen=True):
    items: list[Task]
    next_cursor: str | None = None


class Calendar(Model, frozen=True):
    """A named set of closed times. Jobs that refer to it do not fire while it is closed."""

    name: str
    timezone: str = "UTC"
    description: str = ""
    entries: list[dict[str, Any]] = []
    version: int = 1
    updated_at: datetime | None = None


class Calendars(Model, frozen=True):
    items: list[Calendar]
    next_cursor: str | None = None


class ClosedTime(Model, frozen=True):
    """A range of time in which a calendar is closed."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    entry: int = 0
    """The position of the entry that closes it, from 0 on."""
    reason: str = ""


class CalendarPreview(Model, frozen=True):
    """The closed times of a calendar in a range of time."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    """The end of the list. It is before the requested end if there are too many closed times for one answer."""
    closed: list[ClosedTime] = []


class Key(Model, frozen=True):
    """An API key. Only the answer that created it has the secret, in `key`."""

    key_id: str
    role: str = ""
    name: str = ""
    key: str | None = None
    scopes: list[str] | None = None
    """The only permissions of the role that the key has; None: all of them."""
    labels: list[str] | None = None
    """The only labels that workers with the key may offer; None: any labels."""
    tenants: list[str] | None = None
    """The tenants that workers with the key serve; None: the tenant of the key."""
    user_id: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    """At most a minute before the last use."""
    revoked_at: datetime | None = None
    replaces: str | None = None
    """The id of the key that this one was made from by a rotation."""


class ServerFacts(Model, frozen=True):
    version: str = ""
    store: str = ""
    """`sqlite` or `postgresql`."""
    now: datetime | None = None
    tzdata: str = ""
    """The release of the time zone database that the server uses."""
    public_url: str | None = None


class Credential(Model, frozen=True):
    """The credential of the client, as the server sees it: its tenant, role and permissions. It is an API key, or a
    token of the identity provider."""

    key_id: str | None
    """None: the credential is a token."""
    name: str = ""
    role: str = ""
    tenant: str = ""
    permissions: list[str] = []
    via: str = "key"
    server: ServerFacts = ServerFacts()


class Keys(Model, frozen=True):
    items: list[Key]
    next_cursor: str | None = None


class DeletionProgress(Model, frozen=True):
    """How far the deletion of a tenant is."""

    requested_at: datetime
    requested_by: str
    phase: str
    """`runs` until no run is alive, then `objects`, then `rows`."""
    deleted: dict[str, int] = {}
    """Numbers by kind."""


class Tenant(Model, frozen=True):
    """An owner of jobs and keys, with its limits and prices."""

    tenant_id: str
    name: str = ""
    description: str = ""
    state: str = "active"
    """`active`, or `deleting`."""
    limits: dict[str, Any] = {}
    used: dict[str, Any] = {}
    """What is used of `concurrentRuns`, `jobs`, `runsPerDay` and `storedBytes`. Empty in a list."""
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    deletion: DeletionProgress | None = None


class Tenants(Model, frozen=True):
    items: list[Tenant]
    next_cursor: str | None = None


class User(Model, frozen=True):
    """A user of a tenant. Its role limits its keys."""

    user_id: str
    name: str = ""
    email: str = ""
    role: str = ""
    state: str = "active"
    """`active`, or `disabled`."""
    subject: str | None = None
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_seen_at: datetime | None = None


class Users(Model, frozen=True):
    items: list[User]
    next_cursor: str | None = None


class AuditActor(Model, frozen=True):
    """The credential that sent a request, or Timeball itself."""

    kind: str = ""
    """`key`, `session` (a browser), `jwt`, or `system` for Timeball itself."""
    id: str = ""
    name: str = ""
    user_id: str | None = None


class AuditEntry(Model, frozen=True):
    """One entry of the audit log: a request that changed something, with the values before and after."""

    seq: int
    at: datetime
    actor: AuditActor = AuditActor()
    address: str = ""
    """The network address of the client."""
    action: str = ""
    resource: str = ""
    resource_id: str = ""
    before: dict[str, Any] | None = None
    """The fields that changed, with their values before."""
    after: dict[str, Any] | None = None
    previous: str = ""
    """The hash of the entry before."""
    hash: str = ""


class AuditEntries(Model, frozen=True):
    items: list[AuditEntry]
    next_cursor: str | None = None


class UsageGroup(Model, frozen=True):
    """What the runs of a group used, and what that costs. The fields by which the usage is not grouped are None."""

    tenant_id: str | None = None
    user_id: str | None = None
    """Empty for jobs without a user."""
    job_id: str | None = None
    """Empty for jobs that were deleted with their runs."""
    job_name: str | None = None
    day: date | None = None
    """The day in UTC on which attempts and runs ended."""
    runs: int = 0
    attempts: int = 0
    attempt_seconds: Decimal = Decimal(0)
    cpu_seconds: Decimal = Decimal(0)
    memory_gib_seconds: Decimal = Decimal(0)
    output_bytes: int = 0
    """Size of output and results."""
    cost: Decimal = Decimal(0)


class UsageGroups(Model, frozen=True):
    items: list[UsageGroup]
    next_cursor: str | None = None
    since: datetime | None = field(name="from", default=None)
    until: datetime | None = field(name="to", default=None)
    group_by: list[str] = []
