"""Reads the jobs of a batch in slices: a JSON array, or one job per line.

Only a limited piece of the body is parsed at once, so that the event loop is not blocked. A piece ends where one job
ends and the next may begin: after a line, or at `},{`. That place may be inside of an element, but then the piece is
not valid JSON, because it lacks the end of a string or closing brackets. If all jobs of a piece are valid, in the
canonical shape and not workflows, and no value needs a check of its own, they are decoded together; otherwise they are
read one by one.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final

import msgspec

from timeball.domain.errors import Invalid, TimeballError, TooLarge
from timeball.domain.job.job import JobSpec
from timeball.domain.workflow.definition import Workflow
from timeball.jobspec import job_reader, json_input
from timeball.jobspec.documents import CanonicalJob
from timeball.jobspec.errors import Malformed
from timeball.jobspec.job_reader import JobBody
from timeball.ports.clock import Clock
from timeball.slices import Slice

MAX_JOBS: Final = 10_000
MAX_EXPONENTS: Final = 10 * json_input.MAX_EXPONENTS
"""Maximum number of numbers with exponents of three digits in all jobs of a batch together."""
MAX_CONTAINERS: Final = 300_000
"""Maximum number of arrays and objects in all jobs of a batch together. They exist at the same time, and one pass of
the garbage collector over 600,000 of them takes 50 ms.
"""
CONTAINERS_PER_JOB: Final = 10
"""Number of brackets in an ordinary job. Up to this number per job, brackets in strings count as arrays and objects as
well, because finding the strings takes time."""
PIECE_BYTES: Final = 64 * 1024
"""Approximate number of bytes that are decoded together."""
WINDOW_BYTES: Final = 1 << 20
"""Number of bytes that are scanned together without being decoded."""

Read = JobBody | TimeballError

Decoders = tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]
"""The decoders of one job, and of an array of jobs."""

_TYPED: Final[Decoders] = (msgspec.json.Decoder(JobSpec), msgspec.json.Decoder(list[JobSpec]))
_KEYED: Final[Decoders] = (msgspec.json.Decoder(CanonicalJob), msgspec.json.Decoder(list[CanonicalJob]))
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_BLANK = re.compile(rb"[ \t\r\n]*+")


async def read_batch(raw: bytes, lines: bool, clock: Clock) -> tuple[list[Read], bool]:
    """Return each job of the batch, or its error; and True if one of the jobs is large."""
    await _check_text(raw, Slice(clock))
    reader = _Lines(raw, clock) if lines else _Array(raw, clock)
    return await reader.read(), reader.has_large


async def _check_text(raw: bytes, current: Slice) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(raw), WINDOW_BYTES):
        piece = raw[at : at + WINDOW_BYTES]
        try:
            if decoder.getstate()[0] or not piece.isascii():
                decoder.decode(piece, final=at + WINDOW_BYTES >= len(raw))
        except UnicodeDecodeError as error:
            begin = at - len(decoder.getstate()[0])
            raise Malformed(f"the body is not UTF-8: {error.reason} at byte {max(begin, 0) + error.start}") from None
        if current.is_over:
            await current.next()


class _Lines:
    """Reads one job per line."""

    def __init__(self, raw: bytes, clock: Clock) -> None:
        self._raw = raw
        self._clock = clock
        self._slice = Slice(clock)
        self._at = 0
        """Position of the first byte that was not read yet."""
        self.has_large = False
        self._exponents = self._containers = 0
        self._read: list[Read] = []

    async def read(self) -> list[Read]:
        while not self._is_at_end():
            end = self._piece_end()
            if end is None or not self._read_alike(end):
                # Read at least one byte, so that the loop ends also for a piece that contains no job.
                await self._read_each(self._at + PIECE_BYTES if end is None else max(end, self._at + 1))
            if len(self._read) > MAX_JOBS:
                raise TooLarge(f"a batch has at most {MAX_JOBS:,} jobs; this one has more")
            if self._slice.is_over:
                await self._slice.next()
        return self._read

    def _read_alike(self, end: int) -> bool:
        """Decode at once all jobs of the piece of the body that ends at `end`. Return False, and add none of them,
        unless all are valid, in the canonical shape and not workflows."""
        piece = self._raw[self._at : end]
        if json_input.is_suspicious(piece) or json_input.has_exponents(piece):
            return False
        try:
            if job_reader.has_keys(piece):
                bodies = [job_reader.with_key(job) for job in self._decode(piece, _KEYED)]
            else:
                bodies = [JobBody(spec) for spec in self._decode(piece, _TYPED)]
            for body in bodies:
                job_reader.check_nesting(body.spec)
                if type(body.spec.task) is Workflow:  # validating a workflow takes a while
                    return False
        except (msgspec.DecodeError, RecursionError, Invalid):
            return False  # one of the jobs has another shape or is invalid
        self._count(piece, json_input.FEW_CONTAINERS + CONTAINERS_PER_JOB * len(bodies))
        self._read += bodies
        self._at = end
        self._skip()
        return True

    def _count(self, piece: bytes, few: int = json_input.FEW_CONTAINERS) -> None:
        """Raise `Invalid` if the jobs of the batch, with those in this piece, take too long to read or slow down the
        garbage collector."""
        self._exponents += json_input.exponents(piece)
        if self._exponents > MAX_EXPONENTS:
            raise Invalid(f"a batch has at most {MAX_EXPONENTS:,} numbers with exponents of three digits")
        self._containers += json_input.count_containers(piece, few)
        if self._containers > MAX_CONTAINERS:
            raise Invalid(f"a batch has at most {MAX_CONTAINERS:,} arrays and objects")

    async def _read_each(self, until: int) -> None:
        """Read the jobs that begin before a position, one by one."""
        while self._at < until and not self._is_at_end() and len(self._read) <= MAX_JOBS:
            item = self._next()
            if item is None:
                continue
            if self._slice.is_over:
                await self._slice.next()
            self._count(item)
            self.has_large = self.has_large or len(item) > PIECE_BYTES
            try:
                self._read.append(await job_reader.read_job_in_slices(item, self._clock))
            except TimeballError as error:
                error.__traceback__ = error.__context__ = None  # these would keep references to all that was read
                self._read.append(error)
            if self._slice.is_over:
                await self._slice.next()

    # --- what differs -----------------------------------------------------------------------------------------------

    def _is_at_end(self) -> bool:
        return self._at >= len(self._raw)

    def _piece_end(self) -> int | None:
        """Return where the next piece of the body, whose jobs are decoded together, may end; None if the jobs have to
        be read one by one."""
        if len(self._raw) - self._at <= PIECE_BYTES:
            return len(self._raw)
        end = self._raw.rfind(b"\n", self._at, self._at + PIECE_BYTES)
        return None if end < 0 else end + 1

    def _decode(self, piece: bytes, decoders: Decoders) -> list[Any]:
        return decoders[0].decode_lines(piece)

    def _skip(self) -> None:
        """Skip the bytes between two jobs."""

    def _next(self) -> bytes | None:
        """Return the bytes of the next line, and move past it. Return None if the line has no job: it is blank, or it
        is too large and an error is recorded in its place."""
        end = self._raw.find(b"\n", self._at)
        end = len(self._raw) if end < 0 else end
        begin, self._at = self._at, end + 1
        if end - begin > json_input.MAX_BODY:
            self._read.append(_too_large())
            return None
        line = self._raw[begin:end]
        return line if line.strip() else None


class _Array(_Lines):
    """Reads a JSON array of jobs."""

    def __init__(self, raw: bytes, clock: Clock) -> None:
        super().__init__(raw, clock)
        self._is_closed = False
        self._at = self._blank_end() + 1
        first = self._blank_end()
        if raw[first : first + 1] == b"]":
            self._close(first)

    def _is_at_end(self) -> bool:
        return self._is_closed

    def _piece_end(self) -> int | None:
        if len(self._raw) - self._at <= PIECE_BYTES:
            end = self._raw.rfind(b"]", self._at)
            return None if end < 0 else end
        found = _BETWEEN.search(self._raw, self._at + PIECE_BYTES // 2, self._at + PIECE_BYTES)
        return None if found is None else found.start() + 1

    def _decode(self, piece: bytes, decoders: Decoders) -> list[Any]:
        found: list[Any] = decoders[1].decode(b"[%b]" % piece)
        if not found:
            raise Invalid("there is no job after the last comma")
        return found

    def _skip(self) -> None:
        """Move to the next element, or behind the end of the array."""
        end = self._blank_end()
        match self._raw[end : end + 1]:
            case b",":
                self._at = end + 1
            case b"]":
                self._close(end)
            case _:
                raise _malformed(end)

    def _blank_end(self) -> int:
        found = _BLANK.match(self._raw, self._at, self._at + WINDOW_BYTES)
        assert found is not None, "the pattern also matches an empty string"
        if found.end() - self._at == WINDOW_BYTES:
            raise Malformed(f"the body has more than {WINDOW_BYTES >> 20} MiB of blanks at byte {self._at}")
        return found.end()

    def _close(self, end: int) -> None:
        self._at = end + 1
        if (rest := self._blank_end()) < len(self._raw):
            raise Malformed(f"the body is not JSON: there is content after the array, at byte {rest}")
        self._is_closed = True

    def _next(self) -> bytes | None:
        self._at = self._blank_end()
        item = self._element(PIECE_BYTES) or self._element(json_input.MAX_BODY)
        if item is None:
            raise _too_large()
        self._at += len(item)
        self._skip()
        return item

    def _element(self, limit: int) -> bytes | None:
        """Return the element that begins here, or None if it has more than `limit` bytes."""
        window = self._raw[self._at : self._at + limit]
        is_cut = self._at + limit < len(self._raw)
        text = window.decode("utf-8", "ignore")
        try:
            _, end = _scanner.raw_decode(text)
        except RecursionError:
            raise Invalid(f"arrays and objects are nested more than {json_input.MAX_DEPTH} levels deep") from None
        except json.JSONDecodeError as error:
            if is_cut:
                return None
            raise _malformed(self._at + len(text[: error.pos].encode())) from None
        return None if is_cut and end == len(text) else text[:end].encode()


_scanner = json.JSONDecoder(parse_int=len, parse_float=len)
"""Finds the end of an element. Numbers are not converted."""


def _too_large() -> TooLarge:
    return TooLarge(f"a job of a batch is larger than {json_input.MAX_BODY >> 20} MiB")


def _malformed(at: int) -> Malformed:
    return Malformed(f"the body is not JSON: it is malformed at byte {at}")
