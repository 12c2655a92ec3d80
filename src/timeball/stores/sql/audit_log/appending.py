"""Appends the entry of a request in the transaction that makes its first change.

The methods of the store record what they change (`recording`). A store for one request (`AuditStore.audited`) has the
driver `AuditingDriver`, which appends the entry after that, as the last step of the transaction: the end of the chain
is the last row that is locked, and only other audited changes of the same tenant wait for it. A store without a
request, such as that of the loops, records nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from timeball.domain.audit_log.change import AuditedChange, AuditedRequest, entry_of
from timeball.domain.audit_log.entry import NO_HASH, AuditEntry, ChainHead, head_of
from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.ports.metrics import StoreMetrics, StoreUse
from timeball.ports.store.changes import ChangeListener
from timeball.ports.store.store import MessageListener, WakeupListener
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.driver import Driver, T, Tx, Work
from timeball.stores.sql.rows.jobs import computed
from timeball.stores.sql.schema.audit_log import AUDIT_HEADS, AUDIT_LOG, AuditHeadRow, AuditRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query

LOCK_AUDIT_HEAD = query("lock_audit_head")
MOVE_AUDIT_HEAD = query("move_audit_head")
DELETION_RECEIPT = query("deletion_receipt")


class ClosedChain(Conflict):
    """Raised when the tenant of a chain is being deleted, or was deleted."""


class AuditingDriver:
    """The driver of a store for one request."""

    def __init__(self, driver: Driver, request: AuditedRequest) -> None:
        self._driver = driver
        self._request = request

    @property
    def committed(self) -> CommittedChanges:
        return self._driver.committed

    @property
    def metrics(self) -> StoreMetrics:
        return self._driver.metrics

    def use(self) -> StoreUse:
        return self._driver.use()

    async def open(self) -> None:
        await self._driver.open()

    async def close(self) -> None:
        await self._driver.close()

    def now(self) -> Micros:
        return self._driver.now()

    def require_space(self) -> None:
        self._driver.require_space()

    async def write(self, work: Work[T], *, once: bool = False) -> T:
        if self._request.is_logged:
            return await self._driver.write(work, once=once)
        has_changed = False

        async def audited(tx: Tx) -> T:
            nonlocal has_changed
            changes: list[AuditedChange] = []
            tx.audited = changes
            try:
                answer = await work(tx)
            finally:
                tx.audited = None
            has_changed = bool(changes)
            await append(tx, [(self._request, changes)])
            return answer

        answer = await self._driver.write(audited, once=once)
        self._request.is_logged = has_changed
        return answer

    async def read(self, work: Work[T], *, slow: bool = False, may_lag: bool = False) -> T:
        return await self._driver.read(work, slow=slow, may_lag=may_lag)

    def listen(self, hint: WakeupListener) -> None:
        self._driver.listen(hint)

    def wake_all(self, topic: str) -> None:
        self._driver.wake_all(topic)

    def watch_changes(self, listener: ChangeListener | None) -> None:
        self._driver.watch_changes(listener)

    def listen_to_servers(self, listener: MessageListener) -> None:
        self._driver.listen_to_servers(listener)

    def send_to_servers(self, message: str) -> None:
        self._driver.send_to_servers(message)


async def append(tx: Tx, requests: Sequence[tuple[AuditedRequest, Sequence[AuditedChange]]]) -> None:
    """Append the entry of each request to the chain of its changes, or to each of their chains. Chains are locked in
    the order of their names, so that two servers cannot deadlock. Nothing may be locked after this."""
    wanted: dict[str, list[tuple[AuditedRequest, list[AuditedChange]]]] = {}
    for request, changes in requests:
        own: dict[str, list[AuditedChange]] = {}
        for each in changes:
            own.setdefault(each.chain or request.tenant, []).append(each)
        for chain, found in own.items():
            wanted.setdefault(chain, []).append((request, found))
    for chain in sorted(wanted):
        head, now = await _locked_head(tx, chain)
        size = sum(max(each.size for each in changes) for _, changes in wanted[chain])
        made = await computed(tx, size, partial(_entries, wanted[chain], head, now))
        await tx.insert(AUDIT_LOG, [as_tuple(audit_row(entry)) for entry in made])
        last = made[-1]
        ((_,),) = await tx.fetch(MOVE_AUDIT_HEAD, chain=chain, known=head.seq, seq=last.seq, hash=last.hash)


def _entries(
    requests: Sequence[tuple[AuditedRequest, Sequence[AuditedChange]]], head: ChainHead, now: Micros
) -> list[AuditEntry]:
    made: list[AuditEntry] = []
    for request, changes in requests:
        made.append(entry_of(request, changes, head, now))
        head = head_of(made[-1])
    return made


async def _locked_head(tx: Tx, chain: str) -> tuple[ChainHead, Micros]:
    """Lock the end of a chain. Raise `ClosedChain` if the tenant is being deleted, or was deleted."""
    rows = await tx.fetch(LOCK_AUDIT_HEAD, chain=chain)
    if not rows:
        if await tx.fetch(DELETION_RECEIPT, tenant=chain):
            raise ClosedChain(f"the tenant {chain!r} was deleted")
        await tx.insert_missing(AUDIT_HEADS, [as_tuple(AuditHeadRow(chain, 0, NO_HASH))])
        rows = await tx.fetch(LOCK_AUDIT_HEAD, chain=chain)
    ((seq, last, now, closing),) = rows
    if closing:
        raise ClosedChain(f"the tenant {chain!r} is being deleted")
    return ChainHead(chain, seq, last), now


def audit_row(entry: AuditEntry) -> AuditRow:
    actor = entry.actor
    return AuditRow(
        chain=entry.chain,
        seq=entry.seq,
        at=entry.at,
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=actor.name,
        user_id=actor.user_id,
        address=entry.address,
        action=entry.action,
        resource=entry.resource,
        resource_id=entry.resource_id,
        old_values=entry.before,
        new_values=entry.after,
        previous=entry.previous,
        hash=entry.hash,
    )
