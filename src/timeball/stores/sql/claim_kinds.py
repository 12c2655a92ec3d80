"""Claims for workers that take only some kinds of tasks.

A fleet without such workers pays nothing for them. For one of them, a claim looks at the candidates one by one, names
the kind of each among what it asks for, and sets those aside that no worker with room takes: they get a profile that
names their kind, and wait in its queue from then on. So what a worker refuses never stands before what it takes. The
kind is that of the task as it is now: a registered one may have changed since a run of it was set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from timeball.domain.fitting import Need, Offer
from timeball.domain.task import Task, kind_of
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.library import query
from timeball.stores.sql.rows import unread

KEEP_PROFILES = query("keep_profiles")
WAIT_FOR_KIND = query("wait_for_kind")


class _Named(Struct):
    """What is wanted of a spec here."""

    task: Task | None = None


_decode_spec = msgspec.json.Decoder(_Named).decode
_decode_task: Any = msgspec.json.Decoder(Task).decode


class Candidate(Protocol):
    """A run that could be claimed."""

    @property
    def job_id(self) -> str: ...

    @property
    def spec(self) -> str: ...

    @property
    def task(self) -> str | None: ...


def named(need: Need, each: Candidate, offers: Sequence[Offer]) -> Need:
    """What a run asks for, with its kind, if a worker with room for it takes only some kinds."""
    if all(offer.kinds is None for offer in offers if offer.slots >= need.slots):
        return need
    return need.of_kind(_kind(each))


async def set_aside(tx: Tx, runs: Sequence[tuple[str, str]]) -> None:
    """Let runs wait in the queues of profiles that name their kinds: ids and profiles."""
    await tx.execute(KEEP_PROFILES, b=sorted({profile for _, profile in runs}))
    await tx.execute(WAIT_FOR_KIND, b=sorted(runs))


def _kind(each: Candidate) -> str | None:
    """The kind of its task; None: it cannot be read here, or is not registered any more."""
    try:
        task = _decode_spec(each.spec).task if each.task is None else _decode_task(each.task)
    except msgspec.MsgspecError as error:
        unread(each.job_id, error)
        return None
    return None if task is None else kind_of(task)
