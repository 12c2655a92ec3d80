"""The former specs of jobs: a row is written when an update changes the spec. The rows are listed newest first.

A row has a spec and the last version of the job that had it. A finished run refers to its spec by its version: it
executed the spec of the first row whose version is not before the version of the run, or else the current spec. A
row is therefore kept as long as such runs exist, even if it is not listed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.ports.store.jobs import MAX_VERSIONS, JobVersion
from timeball.ports.store.paging import Page
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.page_bytes import MAX_PAGE_BYTES, fitting
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import LARGEST
from timeball.stores.sql.statements import query

KEEP_VERSIONS = query("keep_versions")
VERSION_TO_TRIM = query("version_to_trim")
TRIM_VERSION = query("trim_version")
CURRENT_VERSION = query("current_version")
FORMER_VERSIONS = query("former_versions")
SPECS_OF_VERSIONS = query("specs_of_versions")

MAX_RUNS_COMPARED: Final = 1_000
"""Maximum number of runs of a job that are read to find out whether one of them executed a former spec."""

ReplacedSpec = tuple[str, int, str, Micros, str | None]
"""Job id, version, spec, the instant at which the spec is replaced, and the name of the API key of the request."""


class _ListedVersion(Struct, frozen=True):
    """A row of the statements `current_version` and `former_versions`."""

    last: int
    """The last version with this spec."""
    size: int
    is_offloaded: int
    version: int
    at: Micros
    by: str | None

    @property
    def bytes(self) -> int:
        """The maximum size of the spec, with its parameters, in bytes."""
        return MAX_PAGE_BYTES if self.is_offloaded else self.size


class JobVersions(StorePart):
    async def versions(self, job_id: str, cursor: str | None, limit: int) -> Page[JobVersion]:
        before = LARGEST if cursor is None else int(cursor)

        async def work(tx: Tx) -> Page[JobVersion]:
            rows = (
                list(starmap(_ListedVersion, await tx.fetch(CURRENT_VERSION, job_id=job_id))) if cursor is None else []
            )
            which = {"job_id": job_id, "before": before, "limit": limit + 1, "kept": MAX_VERSIONS}
            rows += starmap(_ListedVersion, await tx.fetch(FORMER_VERSIONS, **which))
            shown = rows[: fitting((row.bytes for row in rows), limit)]
            found = await tx.fetch(SPECS_OF_VERSIONS, job_id=job_id, b=[row.last for row in shown])
            specs: dict[int, str] = dict(found)
            items = [JobVersion(row.version, row.at, row.by, specs[row.last].encode()) for row in shown]
            return Page(items, str(shown[-1].last) if len(rows) > len(shown) > 0 else None)

        return await self._db.read(work)


async def keep(tx: Tx, replaced: Sequence[ReplacedSpec]) -> None:
    """Insert the specs that these jobs have until now. If a job is changed twice in one call, its second row is
    inserted after the first, because it begins at the version after that of the first row."""
    rest = list(replaced)
    while rest:
        first = {row[0]: row for row in reversed(rest)}
        await tx.execute(KEEP_VERSIONS, b=list(first.values()))
        rest = [row for row in rest if first[row[0]] is not row]


async def trim(tx: Tx, jobs: Iterable[Job]) -> None:
    """Delete one former spec of each of these jobs, which were just updated and are locked: the newest one beyond the
    `MAX_VERSIONS` that are listed. It stays if a live or finished run refers to it, or if the job has
    `MAX_RUNS_COMPARED` or more live runs, or as many finished ones. A job whose version is at most `MAX_VERSIONS` has
    no such spec."""
    for job in jobs:
        if job.version <= MAX_VERSIONS:
            continue
        for version, since in await tx.fetch(VERSION_TO_TRIM, job_id=job.id, limit=MAX_VERSIONS):
            which = {"job_id": job.id, "version": version, "since": since or 1, "limit": MAX_RUNS_COMPARED}
            await tx.execute(TRIM_VERSION, **which)
