"""Export a chain of the audit log, page by page, as it was when the export began."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

from timeball.domain.audit_log.entry import AuditEntry
from timeball.domain.errors import TooManyRequests, Unavailable
from timeball.ports.store.audit_log import AuditStore

PAGE: Final = 500
"""Maximum number of entries that are read at once."""
FIRST: Final = -(2**63)
"""Precedes the numbers of all entries, also of those that Timeball did not append."""
MAX_EXPORTS: Final = 4
"""Maximum number of exports at once on one server. Each keeps a page in memory."""
MAX_EXPORTS_PER_CREDENTIAL: Final = 2
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that was refused may try again."""


class AuditExports:
    """The exports in progress on this server."""

    def __init__(self) -> None:
        self._credentials: Counter[str] = Counter()

    def check_room(self, credential: str) -> None:
        """Raise `TooManyRequests` if the credential has its maximum of exports on this server, and `Unavailable` if the
        server has its maximum."""
        if self._credentials[credential] >= MAX_EXPORTS_PER_CREDENTIAL:
            raise TooManyRequests(
                f"this credential has {MAX_EXPORTS_PER_CREDENTIAL} exports of the audit log in progress on this"
                " server, which is the maximum",
                RETRY_AFTER,
            )
        if self._credentials.total() >= MAX_EXPORTS:
            raise Unavailable(
                f"this server has {MAX_EXPORTS} exports of the audit log in progress, which is the maximum", RETRY_AFTER
            )

    @contextlib.contextmanager
    def counted(self, credential: str) -> Iterator[None]:
        self._credentials[credential] += 1
        try:
            yield
        finally:
            self._credentials[credential] -= 1
            if not self._credentials[credential]:
                del self._credentials[credential]


async def pages(store: AuditStore, chain: str, last: int) -> AsyncIterator[list[AuditEntry]]:
    """Yield the entries of a chain up to the number `last`, in order."""
    after = FIRST
    while after < last and (found := await store.audit_entries(chain, after, min(PAGE, last - after))):
        after = found[-1].seq
        yield [entry for entry in found if entry.seq <= last]
