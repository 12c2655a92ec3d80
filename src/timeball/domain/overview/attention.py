"""The attention list of the overview: the facts that the store reads, and the entries with messages that are built from
them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from timeball.domain.diagnosis.worker_match import WorkerOffer, lacking
from timeball.domain.dispatch.placement import PLAIN, need_of
from timeball.domain.instant import Micros
from timeball.domain.run.ledger import TOLERANCE
from timeball.domain.text.english import about, counted

MAX_PER_KIND: Final = 5
"""Maximum number of entries of each kind in the attention list."""
MIN_FAILURES: Final = 2
"""Number of newest runs of a job that must have failed in sequence before the job counts as failing."""


class AttentionKind(StrEnum):
    DEAD = "dead"
    """Dead letters of one job: runs that used up their retries."""
    FAILING = "failing"
    """A job whose newest finished runs, at least `MIN_FAILURES`, all ended as failed or dead."""
    UNPLACEABLE = "unplaceable"
    """Due runs whose placement requirements no worker meets, even if it were idle."""
    LATE = "late"
    """Due runs that have not started within the tolerance of the ledger, although a worker could execute them if it
    were idle."""
    WORKER_LOST = "workerLost"
    """A worker whose lease lapsed without a goodbye."""
    PAUSED = "paused"


class Trouble(Struct, frozen=True, kw_only=True):
    """Runs of one job with the same problem, such as dead letters or runs without a worker."""

    job_id: str
    job_name: str
    count: int
    run_id: str
    since: Micros
    profile: str | None = None
    """The placement profile of the runs: what they require of a worker. None without requirements."""
    function: str | None = None
    """The Python function that the runs call; None if they call none, or if the store did not look it up."""


class PausedJob(Struct, frozen=True, kw_only=True):
    job_id: str
    job_name: str
    reason: str
    since: Micros
    until: Micros | None


class LostWorker(Struct, frozen=True):
    name: str
    seen_at: Micros


class AttentionFacts(Struct, frozen=True, kw_only=True):
    now: Micros
    dead_letters: int = 0
    """Number of dead letters of the tenant, counted up to a maximum."""
    dead: Sequence[Trouble] = ()
    failing: Sequence[Trouble] = ()
    waiting: Sequence[Trouble] = ()
    """Runs that are due and that no worker has claimed, by job and placement profile."""
    lost: Sequence[LostWorker] = ()
    paused: Sequence[PausedJob] = ()
    workers: Sequence[WorkerOffer] = ()


class Attention(Struct, frozen=True, kw_only=True):
    kind: AttentionKind
    count: int
    job_id: str | None = None
    job_name: str | None = None
    run_id: str | None = None
    message: str
    since: Micros


def attention(facts: AttentionFacts) -> list[Attention]:
    """Return the attention list, most urgent kind first."""
    return [*_dead(facts), *_failing(facts), *_waiting(facts), *_lost(facts), *_paused(facts)]


def _of_job(kind: AttentionKind, trouble: Trouble, message: str) -> Attention:
    return Attention(
        kind=kind,
        count=trouble.count,
        job_id=trouble.job_id,
        job_name=trouble.job_name,
        run_id=trouble.run_id,
        message=message,
        since=trouble.since,
    )


def _largest(troubles: Sequence[Trouble]) -> list[Trouble]:
    return sorted(troubles, key=lambda each: (-each.count, each.since, each.job_id))[:MAX_PER_KIND]


def _dead(facts: AttentionFacts) -> list[Attention]:
    return [
        _of_job(AttentionKind.DEAD, each, f"{counted(each.count, 'dead letter')}: retry or discard them.")
        for each in _largest(facts.dead)
    ]


def _failing(facts: AttentionFacts) -> list[Attention]:
    return [
        _of_job(AttentionKind.FAILING, each, f"The last {counted(each.count, 'run')} failed.")
        for each in _largest([each for each in facts.failing if each.count >= MIN_FAILURES])
    ]


def _waiting(facts: AttentionFacts) -> list[Attention]:
    unplaceable = [each for each in facts.waiting if not _has_worker(each.profile, facts.workers, each.function)]
    stuck = {(each.job_id, each.profile) for each in unplaceable}
    late = [
        each
        for each in facts.waiting
        if facts.now - each.since > TOLERANCE and (each.job_id, each.profile) not in stuck
    ]
    found = [
        _of_job(AttentionKind.UNPLACEABLE, each, f"{counted(each.count, 'run')} cannot start. {_lack(each, facts)}")
        for each in _largest(unplaceable)
    ]
    return found + [
        _of_job(AttentionKind.LATE, each, f"{_late(each.count)}, the first by {about(facts.now - each.since)}.")
        for each in _largest(late)
    ]


def _late(count: int) -> str:
    return f"{counted(count, 'run')} {'is' if count == 1 else 'are'} late"


def _has_worker(profile: str | None, workers: Sequence[WorkerOffer], function: str | None = None) -> bool:
    """True if a worker could execute runs of this placement profile if it were idle. If the profile does not name a
    task kind, a worker that accepts only some kinds counts as well, because some of the runs may be of these kinds."""
    need = PLAIN if profile is None else need_of(profile)
    return any(
        worker.idle.may_suit(need)
        and need.slots <= worker.idle.slots
        and need.cpu <= worker.idle.cpu
        and need.memory <= worker.idle.memory
        and (function is None or function in worker.functions)
        for worker in workers
    )


def profiles_without_worker(profiles: Iterable[str], workers: Sequence[WorkerOffer]) -> list[str]:
    return [profile for profile in profiles if not _has_worker(profile, workers)]


def _lack(trouble: Trouble, facts: AttentionFacts) -> str:
    need = PLAIN if trouble.profile is None else need_of(trouble.profile).of_any_tenant()
    reason = lacking(need, trouble.function, facts.workers)
    return "No worker can take them." if reason is None else reason.text


def _lost(facts: AttentionFacts) -> list[Attention]:
    return [
        Attention(
            kind=AttentionKind.WORKER_LOST,
            count=1,
            message=f"Worker {each.name} stopped sending beats {about(facts.now - each.seen_at)} ago.",
            since=each.seen_at,
        )
        for each in facts.lost[:MAX_PER_KIND]
    ]


def _paused(facts: AttentionFacts) -> list[Attention]:
    return [
        Attention(
            kind=AttentionKind.PAUSED,
            count=1,
            job_id=each.job_id,
            job_name=each.job_name,
            message=f"Paused: {each.reason}" if each.reason else "Paused without a reason.",
            since=each.since,
        )
        for each in facts.paused[:MAX_PER_KIND]
    ]
