"""Messages between the servers of one store: which tenants have listeners, and what changed for these tenants.

A message has at most `MAX_MESSAGE_BYTES`. A few changes are sent one by one, many as a summary; changes that do not fit
are added to the next message. Of the changes of workers, those over `MAX_SENT_WORKERS` are dropped. A server sends at
most one message per window, and sends changes only while another server has listeners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from timeball.domain.events import EventType
from timeball.domain.instant import Micros
from timeball.domain.run.status import Status
from timeball.operation.events.job_facts import JobFacts
from timeball.operation.events.summary import RunsSummary
from timeball.operation.events.window import Item
from timeball.ports.store.changes import JobChange, RunChange, WorkerChange
from timeball.ports.store.store import MAX_MESSAGE_BYTES

T = TypeVar("T")
MAX_SENT_CHANGES: Final = 40
"""Maximum number of changes of a tenant that are sent one by one. About as many fit into a message."""
MAX_SENT_WORKERS: Final = 20
MAX_NAMED_TENANTS: Final = 20
"""Maximum number of tenants that a server names in a message. A server with listeners of more tenants asks for the
changes of all tenants."""
ALL_TENANTS: Final = "*"
SUMMARY_SIZES: Final = (20, 5, 0)
"""Limits of a summary, tried in this order until it fits: at most this many jobs, as many runs and as many tags."""


class SentChange(Struct, frozen=True, array_like=True, gc=False):
    """A change of a run; or of a job, if `run_id` is None."""

    what: str
    """The status that the run reached, or the type of the event of the job."""
    job_id: str
    run_id: str | None = None
    attempt: int = 0
    worker: str | None = None
    progress: tuple[float | None, str] | None = None


class SentFacts(Struct, frozen=True, array_like=True, gc=False):
    name: str | None
    kind: str | None
    tags: tuple[str, ...] | None


class SentWorker(Struct, frozen=True, array_like=True, gc=False):
    type: str
    session: str
    name: str
    tenants: Sequence[str] | None = None


class TenantNews(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The changes of one tenant in a message."""

    changes: list[SentChange] = []
    facts: dict[str, SentFacts] = {}
    summary: RunsSummary | None = None


class ServerMessage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    listening: list[str] = []
    """The tenants that have listeners at the server that sends the message; `*` for all tenants."""
    lost: bool = False
    """True if earlier messages of the sender may have been lost."""
    workers: list[SentWorker] = []
    news: dict[str, TenantNews] = {}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ServerMessage).decode
_NO_FACTS: Final = SentFacts(None, None, None)
_STATUSES: Final = {status.value: status for status in Status}
_TYPES: Final = {each.value: each for each in EventType}


class Outbox:
    """The changes that the next message will contain."""

    def __init__(self) -> None:
        self._items: dict[str, list[Item]] = {}
        self._summaries: dict[str, RunsSummary] = {}
        self._workers: list[SentWorker] = []

    @property
    def is_empty(self) -> bool:
        return not (self._items or self._summaries or self._workers)

    def clear(self) -> None:
        self._items.clear()
        self._summaries.clear()
        self._workers.clear()

    def add(self, tenant: str, items: Iterable[Item], bulk: RunsSummary | None = None) -> None:
        """Add changes of a tenant, and the counts of further ones that are not listed."""
        self._items.setdefault(tenant, []).extend(items)
        if bulk is not None:
            known = self._summaries.get(tenant)
            self._summaries[tenant] = bulk if known is None else known.plus(bulk)

    def add_workers(self, changes: Sequence[WorkerChange]) -> None:
        room = MAX_SENT_WORKERS - len(self._workers)
        self._workers += [SentWorker(each.type, each.session, each.name[:100], each.tenants) for each in changes[:room]]

    def message(self, listening: Sequence[str], *, lost: bool) -> str:
        """Return the next message. Changes that do not fit are kept for the message after it."""
        workers, self._workers = self._workers, []
        message = ServerMessage(listening=list(listening), lost=lost, workers=workers)
        left = MAX_MESSAGE_BYTES - len(_encode(message)) - len(',"news":{}')
        news: dict[str, TenantNews] = {}
        for tenant in [*self._summaries, *(tenant for tenant in self._items if tenant not in self._summaries)]:
            chosen, size = self._choose(tenant, left)
            if chosen is not None:
                news[tenant] = chosen
                left -= size
        return _encode(msgspec.structs.replace(message, news=news)).decode()

    def _choose(self, tenant: str, left: int) -> tuple[TenantNews | None, int]:
        """Return the most detailed form of a tenant's changes that fits into this many bytes, and its size."""
        items, summary = self._items.pop(tenant, []), self._summaries.pop(tenant, None)
        around = len(_encode(tenant)) + 2
        if summary is None and len(items) <= MAX_SENT_CHANGES:
            news = _one_by_one(items)
            if (size := len(_encode(news)) + around) <= left:
                return news, size
        if items:
            whole = RunsSummary.of(items)
            summary = whole if summary is None else summary.plus(whole)
        assert summary is not None
        for limit in SUMMARY_SIZES:
            news = TenantNews(summary=summary.limited(limit, limit, limit))
            if (size := len(_encode(news)) + around) <= left:
                return news, size
        self._summaries[tenant] = summary.limited()
        return None, 0


def read_message(text: str) -> ServerMessage | None:
    """Return the message; None if this version cannot read it."""
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None


def items_of(tenant: str, news: TenantNews, time: Micros) -> list[Item]:
    """Return the changes that another server listed one by one, without those of types that this version does not
    know."""
    found: list[Item] = []
    for each in news.changes:
        facts = _facts(tenant, each.job_id, news)
        if each.run_id is None:
            if (kind := _TYPES.get(each.what)) is not None:
                found.append((JobChange(kind, each.job_id, time), facts))
        elif (status := _STATUSES.get(each.what)) is not None:
            run = RunChange(
                each.run_id,
                each.job_id,
                tenant,
                status,
                time,
                each.attempt,
                worker=each.worker,
                progress=each.progress,
            )
            found.append((run, facts))
    return found


def workers_of(message: ServerMessage) -> list[WorkerChange]:
    return [
        WorkerChange(_TYPES[each.type], each.session, each.name, each.tenants)
        for each in message.workers
        if each.type in _TYPES
    ]


def _one_by_one(items: Sequence[Item]) -> TenantNews:
    changes: list[SentChange] = []
    facts_of_jobs: dict[str, SentFacts] = {}
    for change, facts in items:
        if isinstance(change, RunChange):
            job_id = change.job_id if facts is None else facts.job_id
            changes.append(
                SentChange(change.status, job_id, change.run_id, change.attempt, change.worker, change.progress)
            )
        elif isinstance(change, JobChange):
            job_id = change.job_id
            changes.append(SentChange(change.type, job_id))
        else:
            continue
        if facts is not None and job_id not in facts_of_jobs:
            facts_of_jobs[job_id] = SentFacts(_or_none(facts.name), _or_none(facts.kind), _or_none(facts.tags))
    return TenantNews(changes=changes, facts=facts_of_jobs)


def _facts(tenant: str, job_id: str, news: TenantNews) -> JobFacts:
    sent = news.facts.get(job_id, _NO_FACTS)
    return JobFacts(
        tenant,
        job_id,
        UNSET if sent.name is None else sent.name,
        UNSET if sent.tags is None else sent.tags,
        UNSET if sent.kind is None else sent.kind,
    )


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value
