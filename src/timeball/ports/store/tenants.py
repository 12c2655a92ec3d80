"""The store of tenants, their users, their usage, and their deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from timeball.domain.audit_log.entry import Actor
from timeball.domain.identity.user import User
from timeball.domain.instant import Micros
from timeball.domain.tenant import DeletionPhase, QuotaLimits, Tenant, TenantDeletion, TenantLimits
from timeball.domain.usage import PriceList, Usage, UsageKey
from timeball.ports.store.maintenance import Lead
from timeball.ports.store.paging import Page


class CredentialUse(Struct, frozen=True):
    """When an API key or a user last sent a request to this server."""

    key_id: str | None
    """The API key; None: the credential was a token."""
    tenant: str
    user_id: str | None
    at: Micros


class QuotaUse(Struct, frozen=True, kw_only=True):
    """What a tenant uses of its quotas."""

    running: int
    """Running runs."""
    jobs: int
    """Jobs that may still fire, counted up to a limit."""
    runs_today: int
    """Runs that begin today, in UTC. They are counted only while the tenant has a quota of them."""
    stored_bytes: int
    """Bytes that are stored, as of the last recount and what was added since. They are counted only while the tenant
    has a quota of them."""


class TenantStore(Protocol):
    """The audit log has an entry for each change of a tenant, in the chain of the system."""

    async def create_tenant(self, tenant: Tenant) -> Tenant:
        """Insert a tenant, and return it. Raises `Conflict` if another tenant has the id. The tenant of the same
        creation time is the same one: a repeated call returns it."""
        ...

    async def tenant(self, tenant_id: str) -> Tenant | None:
        """Return a tenant; None: there is no such tenant."""
        ...

    async def tenants(self) -> list[Tenant]:
        """Return all tenants, ordered by id."""
        ...

    async def tenant_limits(self) -> dict[str, TenantLimits]:
        """Return the limits of the tenants that have any."""
        ...

    def enforce_quotas(self, limits: Mapping[str, QuotaLimits]) -> None:
        """Set the quotas of tenants, from the next transaction on. A tenant that is left out has none."""
        ...

    async def quota_use(self, tenant_id: str) -> QuotaUse:
        """Return what a tenant uses of its quotas."""
        ...

    async def recount_stored_bytes(self, lead: Lead, tenant_id: str) -> int:
        """Correct the count of the bytes that are stored for a tenant, and return it: the specs of its jobs with their
        earlier versions and parameters, output, and results. Every write of these adds to the count while the tenant
        has a quota of stored bytes; nothing but this operation subtracts what was deleted."""
        ...

    async def list_tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        """Return a page of the tenants, ordered by id."""
        ...

    async def update_tenant(self, tenant: Tenant) -> Tenant:
        """Replace the name, the description, the state and the limits of a tenant whose version is still that of
        `tenant`. Return it with its new version. A call that is repeated after its commit returns the same. Raises
        `PreconditionFailed` if the tenant has another version, `Conflict` if it is being deleted and would become
        active again, and `NotFound` if it does not exist."""
        ...


class UserStore(Protocol):
    """The audit log has an entry for each change of a user, in the chain of the user's tenant."""

    async def create_user(self, user: User) -> User:
        """Insert a user, and return it. Raises `Conflict` if another user of the tenant has the id or the subject. The
        user of the same creation time is the same one: a repeated call returns it."""
        ...

    async def user(self, tenant: str, user_id: str) -> User | None:
        """Return a user; None: there is no such user."""
        ...

    async def user_by_subject(self, tenant: str, subject: str) -> User | None:
        """Return the user with this id at the identity provider; None: there is no such user."""
        ...

    async def list_users(self, tenant: str, cursor: str | None, limit: int) -> Page[User]:
        """Return a page of the users of a tenant, ordered by id."""
        ...

    async def update_user(self, user: User) -> User:
        """Replace all that can be changed of a user whose version is still that of `user`. Return it with its new
        version. A call that is repeated after its commit returns the same. Raises `PreconditionFailed` if the user has
        another version, `Conflict` if another user has the subject, and `NotFound` if the user does not exist. The web
        sessions of a disabled user, and the sessions of workers that its keys opened, end."""
        ...

    async def delete_user(self, tenant: str, user_id: str) -> bool:
        """Delete a user, and revoke its keys. Return False if there is no such user."""
        ...

    async def note_uses(self, uses: Sequence[CredentialUse]) -> None:
        """Store when keys and users were last used. An instant before the stored one changes nothing, and neither does
        a key or a user that does not exist."""
        ...


class TenantDeletionStore(Protocol):
    """Every call with a `lead` raises `Deposed`, and changes nothing, if another server holds the maintenance lease."""

    async def begin_deletion(self, tenant: str, actor: Actor, address: str) -> TenantDeletion:
        """Mark a tenant as being deleted, for good. Its credentials are no longer valid, it gets no new jobs, and its
        chain of the audit log gets no new entries. Return the deletion, which an earlier call may have begun. Raises
        `NotFound` if there is no such tenant."""
        ...

    async def deletions(self) -> list[TenantDeletion]:
        """Return the deletions that have not ended, in the order of the requests."""
        ...

    async def stop_jobs(self, lead: Lead, tenant: str, limit: int) -> int:
        """Cancel up to `limit` jobs of a tenant, including those that cannot be decoded. Return the number of cancelled
        jobs."""
        ...

    async def owned_by(self, tenant: str, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are ids of jobs or runs of a tenant."""
        ...

    async def note_deletion(
        self, lead: Lead, tenant: str, phase: DeletionPhase, place: str = "", counts: Mapping[str, int] | None = None
    ) -> None:
        """Store the phase of a deletion and `place`, the folder of the object storage that was counted last, and add
        `counts` to what was deleted so far. A call with the phase and the place that are stored already changes
        nothing."""
        ...

    async def delete_rows(self, lead: Lead, tenant: str, limit: int) -> int:
        """Delete some rows of a tenant: up to `limit` of each of a few tables, and add their numbers to the counts of
        the deletion. Return how many were deleted; 0: there are none, except live runs and their jobs."""
        ...

    async def end_deletion(self, lead: Lead, tenant: str) -> bool:
        """Delete the tenant itself and the head of its chain of the audit log, and append the receipt to the chain of
        the system: counts, the number and the hash of the last entry, the actor of the deletion, and when. Return
        False, and change nothing, if the tenant still has rows. Return True if the deletion has ended before. May
        raise `Occupied`."""
        ...


class UsageFilter(Struct, frozen=True, kw_only=True):
    """Which usage, and how it is grouped."""

    tenants: Mapping[str, PriceList]
    """The tenants whose usage is read, with their prices."""
    since: Micros
    """The first instant of the first day."""
    until: Micros
    """The end of the last day."""
    by: Sequence[UsageKey]
    """What the usage is grouped by: some of `USAGE_KEYS`, in that order, at least one."""
    user: str | None = None
    job: str | None = None


class UsageStore(Protocol):
    """Sums of what runs used, which outlive the runs. A run is in one of three places, and a read counts each once:

    - It was created less than `COUNT_DELAY` ago, or maintenance has not reached it yet: its rows are read.
    - It was alive when maintenance reached it: it is pending, and its rows are read.
    - It is in the sums, with all its attempts.
    """

    async def usage(self, where: UsageFilter, cursor: str | None, limit: int) -> Page[Usage]:
        """Return a page of groups, in the order of their keys. An attempt counts on the day, in UTC, on which it ended;
        a run, its output and its result on the day on which the run ended. Attempts that never started, attempts that a
        worker gave back, and workflow runs, whose tasks count, are not included. Raises `Invalid` if the cursor belongs
        to another list."""
        ...

    async def price_lists(self, tenants: Sequence[str]) -> dict[str, PriceList]:
        """Return the prices of those of the tenants that exist."""
        ...

    async def count_usage(self, lead: Lead, limit: int) -> bool:
        """Add about `limit` runs to the sums: runs that were created at least `COUNT_DELAY` ago, and runs that were
        pending and have ended. Return True if more are left; call again then."""
        ...

    async def usage_counted_until(self) -> Micros:
        """Return an instant: each run that was created before it and has ended is in the sums, or is pending. Rows of
        pending runs are never pruned."""
        ...
