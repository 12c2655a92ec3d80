"""Verification of a chain: finds what was edited, deleted, moved or cut off, and names the numbers of the entries."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.audit_log.entry import NO_HASH, AuditEntry, ChainHead, hash_of

MAX_PROBLEMS: Final = 1_000
"""Maximum number of problems of a chain that are kept. Further ones are counted."""
MAX_COMPARED: Final = 100
"""Maximum number of entries with a wrong hash that are compared with each other, to recognize those that were moved."""


class ProblemKind(StrEnum):
    EDITED = "edited"
    """The entry is not as it was written."""
    DELETED = "deleted"
    """Entries are missing."""
    MOVED = "moved"
    """The entry is as it was written, at another place."""
    TRUNCATED = "truncated"
    """Entries at the end of the chain are missing."""
    ADDED = "added"
    """Entries follow the end of the chain: Timeball did not append them."""
    HEADLESS = "headless"
    """The head of the chain is missing, so that nothing says whether the chain is whole."""
    REPLACED = "replaced"
    """The entry has a correct hash, and is not the entry that the next one, or the head, was written after."""
    REWRITTEN = "rewritten"
    """The entry is not the one that was noted earlier: the chain was written again, with correct hashes."""


class AuditProblem(Struct, frozen=True):
    kind: ProblemKind
    seq: int
    """The number of the first entry that is concerned."""
    last: int
    """The number of the last one."""

    @property
    def sentence(self) -> str:
        where = f"entry {self.seq}" if self.seq == self.last else f"entries {self.seq} to {self.last}"
        be = "was" if self.seq == self.last else "were"
        match self.kind:
            case ProblemKind.EDITED:
                return f"{where} {be} edited"
            case ProblemKind.DELETED:
                return f"{where} {be} deleted"
            case ProblemKind.MOVED:
                return f"{where} {be} moved to another place"
            case ProblemKind.TRUNCATED:
                return f"{where} {be} cut off at the end of the chain"
            case ProblemKind.ADDED:
                return f"{where} {be} added after the end of the chain"
            case ProblemKind.HEADLESS:
                return "the head of the chain is missing"
            case ProblemKind.REPLACED:
                return f"{where} {be} replaced, and the hash computed again"
            case ProblemKind.REWRITTEN:
                return f"{where} is not the one of the anchor: the chain was written again"


class ChainVerifier:
    """Checks the entries of one chain in the order in which they are given, with bounded memory."""

    def __init__(self, chain: str, anchor: tuple[int, str] | None = None) -> None:
        """`anchor` is the number and the hash of an entry, noted at an earlier verification."""
        self.chain = chain
        self.last: AuditEntry | None = None
        self.count = 0
        self.problems: list[AuditProblem] = []
        self.uncounted = 0
        """Number of problems beyond `MAX_PROBLEMS`."""
        self._anchor = anchor
        self._has_anchor = anchor is None
        self._last_is_whole = True
        self._wrong: list[AuditEntry] = []
        """Entries whose hash is wrong."""

    def add(self, entry: AuditEntry) -> None:
        self.count += 1
        self._has_anchor = self._has_anchor or (entry.seq, entry.hash) == self._anchor
        expected = 1 if self.last is None else self.last.seq + 1
        previous = NO_HASH if self.last is None else self.last.hash
        is_whole = hash_of(entry) == entry.hash and entry.chain == self.chain
        if entry.seq < expected:
            self._found(ProblemKind.MOVED, entry.seq)
            return  # the entries after it are compared with those before it
        if entry.seq > expected:
            self._found(ProblemKind.DELETED, expected, entry.seq - 1)
        elif is_whole and entry.previous != previous and self.last is not None and self._last_is_whole:
            self._found(ProblemKind.REPLACED, self.last.seq)
        elif is_whole and entry.previous != previous and self.last is None:
            self._found(ProblemKind.REPLACED, entry.seq)
        if not is_whole:
            self._wrong.append(entry)
        self.last, self._last_is_whole = entry, is_whole

    def finish(self, head: ChainHead | None) -> list[AuditProblem]:
        """Return all problems of the chain. `head` is the stored head of the chain; None if it is missing."""
        self._explain_wrong()
        last_seq, last_hash = (0, NO_HASH) if self.last is None else (self.last.seq, self.last.hash)
        if head is None:
            if last_seq:
                self._found(ProblemKind.HEADLESS, last_seq)
        elif head.seq > last_seq:
            self._found(ProblemKind.TRUNCATED, last_seq + 1, head.seq)
        elif head.seq < last_seq:
            self._found(ProblemKind.ADDED, head.seq + 1, last_seq)
        elif head.hash != last_hash and self._last_is_whole:
            self._found(ProblemKind.REPLACED, last_seq)
        if self._anchor is not None and not self._has_anchor:
            self._found(ProblemKind.REWRITTEN, self._anchor[0])
        self.problems = _without_echoes(sorted(self.problems, key=lambda each: (each.seq, each.last, each.kind)))
        return self.problems

    def _explain_wrong(self) -> None:
        """Report each entry whose hash is wrong: as moved if the hash is correct for another number, which the entry
        had before; else as edited."""
        few = self._wrong if len(self._wrong) <= MAX_COMPARED else []
        for entry in self._wrong:
            places = {each.seq for each in few} | {entry.seq - 1, entry.seq + 1}
            is_moved = any(hash_of(msgspec.structs.replace(entry, seq=seq)) == entry.hash for seq in places)
            self._found(ProblemKind.MOVED if is_moved else ProblemKind.EDITED, entry.seq)

    def _found(self, kind: ProblemKind, seq: int, last: int | None = None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(AuditProblem(kind, seq, seq if last is None else last))
        else:
            self.uncounted += 1


def _without_echoes(problems: Sequence[AuditProblem]) -> list[AuditProblem]:
    """Return the problems without those deletions whose entries were all found at another place. Such an entry is only
    reported as moved."""
    moved = {each.seq for each in problems if each.kind is ProblemKind.MOVED}

    def is_echo(each: AuditProblem) -> bool:
        count = each.last - each.seq + 1
        return each.kind is ProblemKind.DELETED and len({seq for seq in moved if each.seq <= seq <= each.last}) == count

    return [each for each in problems if not is_echo(each)]


def verify(entries: Sequence[AuditEntry], head: ChainHead | None, chain: str) -> list[AuditProblem]:
    verifier = ChainVerifier(chain)
    for entry in entries:
        verifier.add(entry)
    return verifier.finish(head)
