"""What a transaction changes, and the entry that a request leaves about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from timeball.domain.audit_log.entry import Actor, AuditEntry, ChainHead, with_hash
from timeball.domain.audit_log.values import Values, changed
from timeball.domain.instant import Micros

MAX_NAMED: Final = 1_000
"""Maximum number of things that the entry of a request on many things names."""
Describe = Callable[[], tuple[Values | None, Values | None]]
"""Returns the values before and after a change."""


class AuditedChange(Struct, frozen=True):
    """One change of one stored object, such as a job or a key."""

    resource: str
    id: str
    describe: Describe
    size: int = 0
    """The approximate number of characters of the values."""
    chain: str = ""
    """The chain that the change belongs to; empty: that of the tenant of the request."""
    actor: Actor | None = None
    """The caller, if the change shows which it is, such as a sign-in; None: that of the request."""


class AuditedRequest(Struct, kw_only=True, eq=False):
    """A request that changes something. It leaves one entry, however many things and transactions it needs: the first
    transaction that changes something appends it."""

    tenant: str
    """Empty for a request without a caller."""
    actor: Actor
    address: str
    action: str
    resource: str = ""
    """The kind and the id of what the request names in its path; empty: it names nothing."""
    resource_id: str = ""
    selection: Values | None = None
    """What a request on many things asks for, such as its filter; None for other requests."""
    details: Values = {}
    """What the entry has in addition to the values after the change, such as the edit of a run that is retried."""
    is_logged: bool = False
    """True after the commit of its entry."""


def entry_of(request: AuditedRequest, changes: Sequence[AuditedChange], head: ChainHead, at: Micros) -> AuditEntry:
    """Return the audit log entry of a request. `changes` are those that its first transaction made in one chain; `head`
    is the last entry of that chain so far."""
    first, *others = changes
    own = next((each for each in changes if each.id == request.resource_id), None)
    resource, resource_id = request.resource or first.resource, request.resource_id
    if request.selection is not None:
        values: tuple[Values | None, Values | None] = (None, _bounded(request.selection))
    elif own is not None:
        values = own.describe()
    elif others:
        values = (None, {"count": len(changes), f"{first.resource}s": [each.id for each in changes[:MAX_NAMED]]})
    elif resource_id:
        values = _with_id(first)
    else:
        resource_id, values = first.id, first.describe()
    before, after = changed(values[0], {**(values[1] or {}), **request.details} if request.details else values[1])
    return with_hash(
        AuditEntry(
            chain=head.chain,
            seq=head.seq + 1,
            at=at,
            actor=first.actor or request.actor,
            address=request.address,
            action=request.action,
            resource=resource,
            resource_id=resource_id,
            before=before,
            after=after,
            previous=head.hash,
            hash="",
        )
    )


def _bounded(selection: Values) -> Values:
    """Return what a request asks for. Each list with more than `MAX_NAMED` items is cut to this number; the field
    `count` then has the number of items of the longest list."""
    long = {name: each for name, each in selection.items() if isinstance(each, list) and len(each) > MAX_NAMED}
    if not long:
        return selection
    return {
        **selection,
        **{name: each[:MAX_NAMED] for name, each in long.items()},
        "count": max(map(len, long.values())),
    }


def _with_id(change: AuditedChange) -> tuple[Values | None, Values | None]:
    """Return the values before and after the only change of a request, with the id of what was changed among the values
    after. The path of the request names another object: the request to run a job names the job and creates a run."""
    before, after = change.describe()
    return before, {change.resource: change.id, **(after or {})}
