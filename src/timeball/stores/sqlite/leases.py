"""Renewal of leases while the disk accepts no writes.

While a SQLite store cannot be written, no run can be assigned to another worker, and the worker inside the server's
process ends with that process. So its lease may be renewed in memory: otherwise a disk that is full for longer than a
lease would end every running job, and cost each of them an attempt. A worker in another process outlives the server,
and the next server knows only what was written: the leases of such workers are renewed in the store or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.errors import Unavailable
from timeball.domain.instant import Micros
from timeball.ports.store.runs import Settlement
from timeball.ports.store.workers import Lease
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.stores.sql.driver import Driver, Tx
from timeball.stores.sql.runs.workers import read_pools
from timeball.stores.sql.statements import query
from timeball.stores.sql.store import SqlStore

LEASES_OF_SESSIONS = query("leases_of_sessions")
EXTEND_LEASES = query("extend_leases")


class LastingLeases(SqlStore):
    def __init__(self, db: Driver, credit: Micros) -> None:
        super().__init__(db, credit)
        self._unwritten: dict[str, Micros] = {}
        """The ends of leases that could not be written, by session."""

    async def renew(self, sessions: Sequence[tuple[str, str]], lease: Micros) -> list[Lease | None]:
        try:
            await self._write_leases()
            return await super().renew(sessions, lease)
        except Unavailable:
            if any(key != LOCAL_KEY for _, key in sessions):
                raise
            return await self._renew_in_memory(sessions, lease)

    async def lapsed(self, limit: int) -> list[Settlement]:
        await self._write_leases()
        return await super().lapsed(limit)

    async def _renew_in_memory(self, sessions: Sequence[tuple[str, str]], lease: Micros) -> list[Lease | None]:
        async def work(tx: Tx) -> dict[str, tuple[Lease, Micros]]:
            rows = await tx.fetch(LEASES_OF_SESSIONS, b=sorted(set(sessions)))
            return {
                session: (Lease(name, key, since is not None, read_pools(pools)), until)
                for session, name, key, until, since, pools in rows
            }

        found = await self._db.read(work)
        now = self._db.now()
        answers: list[Lease | None] = []
        for session, _ in sessions:
            held, until = found.get(session, (None, 0))
            if held is not None and max(until, self._unwritten.get(session, 0)) > now:
                self._unwritten[session] = now + lease
                answers.append(held)
            else:
                answers.append(None)
        return answers

    async def _write_leases(self) -> None:
        """Write the leases that were renewed in memory to the database. It is called before leases are renewed in the
        database, and before lapsed leases are searched. Raise `Unavailable` if the database still accepts no writes."""
        if not self._unwritten:
            return
        held = sorted(self._unwritten.items())

        async def work(tx: Tx) -> None:
            await tx.execute(EXTEND_LEASES, b=held)

        await self._db.write(work)
        for session, until in held:
            if self._unwritten.get(session) == until:
                del self._unwritten[session]
