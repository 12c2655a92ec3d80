"""Groups of dead letters: dead letters with the same error fingerprint form a group."""

from __future__ import annotations

from itertools import starmap
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.error_fingerprint import NO_FINGERPRINT
from timeball.domain.run.lifecycle import Failure
from timeball.ports.store.queries import DeadLetterGroup, DeadLetterGroups, RunFilter
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading import run_filters

MAX_GROUPED: Final = 20_000
"""Maximum number of dead letters that one request groups, newest first. Each takes one or two microseconds on either
database.
"""

_decode_failure = msgspec.json.Decoder(Failure).decode


class DeadLetterGroupRow(Struct, frozen=True):
    """A row of `dead_letter_groups`."""

    fingerprint: str | None
    letters: int
    jobs: int
    first_at: Micros
    last_at: Micros
    newest: str
    failure: str | None
    counted: int


class DeadLetterReads(StorePart):
    async def dead_letter_groups(self, where: RunFilter, limit: int, *, may_lag: bool = False) -> DeadLetterGroups:
        letters = msgspec.structs.replace(where, dead_letters=True)
        (condition,) = run_filters.finished(letters)
        grouping = run_filters.statement("dead_letter_groups", where=condition, jobs=run_filters.jobs(letters))

        async def work(tx: Tx) -> DeadLetterGroups:
            bounds = {"counted": MAX_GROUPED + 1, "limit": limit}
            rows = await tx.fetch(grouping, **run_filters.parameters(letters), **bounds)
            groups = list(starmap(DeadLetterGroupRow, rows))
            counted = max((int(group.counted) for group in groups), default=0)
            return DeadLetterGroups(list(map(_group, groups)), min(counted, MAX_GROUPED), counted > MAX_GROUPED)

        return await self._db.read(work, slow=True, may_lag=may_lag)


def _group(row: DeadLetterGroupRow) -> DeadLetterGroup:
    return DeadLetterGroup(
        fingerprint=row.fingerprint or NO_FINGERPRINT,
        letters=int(row.letters),
        jobs=row.jobs,
        first_at=row.first_at,
        last_at=row.last_at,
        newest=row.newest,
        failure=None if row.failure is None else _decode_failure(row.failure),
    )
