"""Tenants: the owners of jobs, tasks, keys and users, with their limits and prices."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import fields

from timeball.domain.audit_log.entry import Actor
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.network.address_lists import AddressLists, AddressRanges, check_ranges

DEFAULT_TENANT: Final = "default"
"""The tenant of an installation that has only one. It always exists."""
MAX_COUNT: Final = 10**15
TENANT_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
"""The form of the ids of new tenants."""
TenantState = Literal["active", "deleting"]
"""The credentials of a tenant that is being deleted are refused, and it never becomes active again."""

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Rate = Annotated[float, Meta(ge=0.01, le=1_000_000)]
Burst = Annotated[int, Meta(ge=1, le=1_000_000)]
Price = Annotated[Decimal, Meta(description="A decimal number, as text, in any currency.")]


class QuotaLimits(Struct, frozen=True):
    """The quotas of a tenant. None: there is no such quota."""

    jobs: int | None = None
    runs_per_day: int | None = None
    stored_bytes: int | None = None


NO_QUOTAS: Final = QuotaLimits()


class Prices(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the work of a tenant costs, in one currency. A price that is not given is 0."""

    run: Price = Decimal(0)
    """The price of each run that started."""
    attempt_second: Price = Decimal(0)
    """The price of each second of an attempt."""
    cpu_second: Price = Decimal(0)
    """The additional price of each second of each CPU that an attempt asks for."""
    memory_gib_second: Price = Decimal(0)
    """The additional price of each second of each GiB of memory that an attempt asks for."""
    output_gib: Price = Decimal(0)
    """The price of each GiB of output and results."""


class TenantLimits(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a tenant may use, and what that costs. None: there is no limit."""

    weight: Annotated[float, Meta(ge=0.01, le=1_000, description="Share of the workers, compared to others.")] = 1.0
    concurrent_runs: Annotated[Count, Meta(description="Maximum number of running runs.")] | None = None
    jobs: Annotated[Count, Meta(description="Maximum number of jobs that may still fire.")] | None = None
    runs_per_day: Annotated[Count, Meta(description="Maximum number of runs that begin in a day, in UTC.")] | None = (
        None
    )
    stored_bytes: Annotated[Count, Meta(description="Maximum size of what is stored for the tenant.")] | None = None
    requests_per_second: Annotated[Rate, Meta(description="Maximum rate of requests on each server.")] | None = None
    request_burst: (
        Annotated[Burst, Meta(description="Requests at once, before the rate counts; by default those of a second.")]
        | None
    ) = None
    requests_per_second_per_key: (
        Annotated[Rate, Meta(description="Maximum rate of requests with one key, on each server.")] | None
    ) = None
    request_burst_per_key: (
        Annotated[Burst, Meta(description="Requests at once with one key; by default those of a second.")] | None
    ) = None
    max_priority: Annotated[int, Meta(ge=0, le=9, description="Highest priority of its runs.")] | None = None
    allow_addresses: Annotated[AddressRanges, Meta(description="Ranges to which its HTTP jobs may connect.")] = ()
    deny_addresses: Annotated[AddressRanges, Meta(description="Ranges to which its HTTP jobs may not connect.")] = ()
    prices: Prices = Prices()

    @property
    def address_lists(self) -> AddressLists:
        return AddressLists(allow=self.allow_addresses, deny=self.deny_addresses)

    @property
    def quotas(self) -> QuotaLimits:
        return QuotaLimits(self.jobs, self.runs_per_day, self.stored_bytes)


NO_LIMITS: Final = TenantLimits()
MAX_PRICE: Final = Decimal(10) ** 9
MAX_PRICE_DIGITS: Final = 12
"""Maximum number of digits of a price after the decimal point."""


def check_limits(limits: TenantLimits) -> None:
    """Raise `Invalid` if a burst has no rate, a range cannot be parsed, or a price is negative, not finite, too large
    or too fine."""
    if limits.request_burst is not None and limits.requests_per_second is None:
        raise Invalid("requestBurst needs requestsPerSecond", "/limits/requestBurst")
    if limits.request_burst_per_key is not None and limits.requests_per_second_per_key is None:
        raise Invalid("requestBurstPerKey needs requestsPerSecondPerKey", "/limits/requestBurstPerKey")
    check_ranges(limits.allow_addresses, "/limits/allowAddresses")
    check_ranges(limits.deny_addresses, "/limits/denyAddresses")
    _check_prices(limits.prices)


def _check_prices(prices: Prices) -> None:
    for field in fields(prices):
        price: Decimal = getattr(prices, field.name)
        if not (price.is_finite() and 0 <= price <= MAX_PRICE):
            raise Invalid(f"a price is between 0 and {MAX_PRICE:,}", f"/limits/prices/{field.encode_name}")
        _, _, exponent = price.as_tuple()
        if not isinstance(exponent, int) or -exponent > MAX_PRICE_DIGITS:
            detail = f"a price has at most {MAX_PRICE_DIGITS} digits after the decimal point"
            raise Invalid(detail, f"/limits/prices/{field.encode_name}")


class Tenant(Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    description: str = ""
    state: TenantState = "active"
    limits: TenantLimits = NO_LIMITS
    version: int = 1
    """Grows with each change."""
    created_at: Micros
    updated_at: Micros


DeletionPhase = Literal["runs", "objects", "rows"]
"""The steps of a deletion, in order: live runs are cancelled and end; objects and archived runs are deleted; rows are
deleted."""
TENANT_DELETED: Final = "tenant.deleted"
"""The action of the receipt of a deletion in the system's chain of the audit log."""


class TenantDeletion(Struct, frozen=True, kw_only=True):
    """A deletion of a tenant that has begun and is not complete, with its progress."""

    tenant: str
    requested_at: Micros
    actor: Actor
    """The credential that asked for it."""
    address: str
    phase: DeletionPhase = "runs"
    place: str = ""
    """The folder of the object storage that was counted last."""
    counts: dict[str, int] = {}
    """What was deleted so far, by kind: rows by table, `objects`, `archiveObjects` and `archivedRuns`."""
