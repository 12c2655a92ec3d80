"""References from rows to large values in object storage. A row may not start to refer to an object that maintenance
may already delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timeball.domain.errors import Unavailable
from timeball.domain.job import large_values
from timeball.domain.job.job import JobSpec, OffloadedSpec
from timeball.domain.job.large_values import REFERENCE
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning.plans import NOW
from timeball.stores.sql.runs.runs import LOCK_HOLDERS
from timeball.stores.sql.schema.runs import LOGS, LogRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query

NUMBER_STORE = query("number_store")
NUMBER_OF_STORE = query("number_of_store")
REFERRED_TO = {kind: query(f"{kind}_referred_to") for kind in large_values.KINDS}
DROP_PIECES = query("drop_pieces")
NOTE_OUTPUT_SIZE = query("note_output_size")


class _Changed(Exception):
    """Raised when output cannot be replaced by an object: its attempt is running, one of the chunks does not exist any
    more, or the object is too old to be referred to."""


class LargeValues(StorePart):
    async def number(self, fresh: int) -> int:
        async def work(tx: Tx) -> int:
            await tx.execute(NUMBER_STORE, number=fresh)
            ((number,),) = await tx.fetch(NUMBER_OF_STORE)
            return int(number)

        return await self._db.write(work)

    async def referred_to(self, kind: str, keys: Sequence[str]) -> set[str]:
        owned = sorted((large_values.owner(key), key) for key in keys)

        async def work(tx: Tx) -> set[str]:
            return {key for (key,) in await tx.fetch(REFERRED_TO[kind], b=owned)}

        return await self._db.read(work, slow=True) if owned else set()

    async def replace_output(self, run_id: str, attempt: int, seqs: Sequence[int], key: str) -> bool:
        async def work(tx: Tx) -> None:
            ((now,),) = await tx.fetch(NOW)
            running = {held for _, held, _, _ in await tx.fetch(LOCK_HOLDERS, b=[run_id])}
            if attempt in running or not large_values.may_be_referred_to(key, now):
                raise _Changed
            pieces = [(run_id, attempt, seq) for seq in seqs]
            await tx.execute(NOTE_OUTPUT_SIZE, b=pieces)
            if await tx.execute(DROP_PIECES, b=pieces) < len(pieces):
                raise _Changed
            await tx.insert(LOGS, [as_tuple(LogRow(run_id, attempt, max(seqs), REFERENCE, now, key))])

        try:
            await self._db.write(work)
        except _Changed:
            return False
        return True


async def require_fresh(tx: Tx, specs: Iterable[JobSpec | None]) -> None:
    """Raise `Unavailable` if the parameters of a spec were offloaded too long ago. Maintenance deletes objects without
    references after some time, so a new row must not refer to an object of that age."""
    keys = [spec.parameters_at for spec in specs if isinstance(spec, OffloadedSpec)]
    if keys:
        ((now,),) = await tx.fetch(NOW)
        if not all(large_values.may_be_referred_to(key, now) for key in keys):
            raise Unavailable("writing the parameters took too long; try again")
