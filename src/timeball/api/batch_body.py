"""The jobs of a batch, read in slices: a JSON array, or one job per line.

No call into C looks at more than a piece of the body. A piece ends where one job ends and the next may begin: after a
line, or at `},{`. Whether that is really between two elements of the array is not known, but what is read of a wrong
piece is no JSON: it lacks the end of a text, or closing brackets. If all jobs of a piece are in the canonical shape and
right, they are decoded together; else they are looked at one by one.
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
"""In all jobs together."""
MAX_CONTAINERS: Final = 300_000
"""Arrays and objects in all jobs together: they are alive at the same time, and one look of the garbage collector at
600,000 of them takes 50 ms."""
CONTAINERS_PER_JOB: Final = 10
"""In ordinary jobs, which are counted without a look at their texts."""
PIECE_BYTES: Final = 64 * 1024
"""What is decoded together, about."""
WINDOW_BYTES: Final = 1 << 20
"""What is looked at together, where nothing is decoded."""

Read = JobBody | TimeballError

Decoders = tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]
"""Of a job, and of an array of them."""

_TYPED: Final[Decoders] = (msgspec.json.Decoder(JobSpec), msgspec.json.Decoder(list[JobSpec]))
_KEYED: Final[Decoders] = (msgspec.json.Decoder(CanonicalJob), msgspec.json.Decoder(list[CanonicalJob]))
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_BLANK = re.compile(rb"[ \t\r\n]*+")


async def read_batch(raw: bytes, lines: bool, clock: Clock) -> tuple[list[Read], bool]:
    """Each of its jobs, or what is wrong with it; and whether one of them is large."""
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
    """One job per line."""

    def __init__(self, raw: bytes, clock: Clock) -> None:
        self._raw = raw
        self._clock = clock
        self._slice = Slice(clock)
        self._at = 0
        """Where what was not read yet begins."""
        self.has_large = False
        self._exponents = self._containers = 0
        self._read: list[Read] = []

    async def read(self) -> list[Read]:
        while not self._is_at_end():
            end = self._piece_end()
            if end is None or not self._read_alike(end):
                # At least one: a piece without any job is not read by anything else.
                await self._read_each(self._at + PIECE_BYTES if end is None else max(end, self._at + 1))
            if len(self._read) > MAX_JOBS:
                raise TooLarge(f"a batch has at most {MAX_JOBS:,} jobs; this one has more")
            if self._slice.is_over:
                await self._slice.next()
        return self._read

    def _read_alike(self, end: int) -> bool:
        """All of a piece at once: jobs in the canonical shape without anything wrong."""
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
                if type(body.spec.task) is Workflow:  # to check one takes a while
                    return False
        except (msgspec.DecodeError, RecursionError, Invalid):
            return False  # one of them is written otherwise or is wrong
        self._count(piece, json_input.FEW_CONTAINERS + CONTAINERS_PER_JOB * len(bodies))
        self._read += bodies
        self._at = end
        self._skip()
        return True

    def _count(self, piece: bytes, few: int = json_input.FEW_CONTAINERS) -> None:
        """Refuse what takes long to read, or keeps the garbage collector busy, in all jobs together."""
        self._exponents += json_input.exponents(piece)
        if self._exponents > MAX_EXPONENTS:
            raise Invalid(f"a batch has at most {MAX_EXPONENTS:,} numbers with exponents of three digits")
        self._containers += json_input.count_containers(piece, few)
        if self._containers > MAX_CONTAINERS:
            raise Invalid(f"a batch has at most {MAX_CONTAINERS:,} arrays and objects")

    async def _read_each(self, until: int) -> None:
        """Those that begin before a place, one by one."""
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
                error.__traceback__ = error.__context__ = None  # they would keep all that was read alive
                self._read.append(error)
            if self._slice.is_over:
                await self._slice.next()

    # --- what differs -----------------------------------------------------------------------------------------------

    def _is_at_end(self) -> bool:
        return self._at >= len(self._raw)

    def _piece_end(self) -> int | None:
        """Where a piece may end that is decoded together; None: look at each."""
        if len(self._raw) - self._at <= PIECE_BYTES:
            return len(self._raw)
        end = self._raw.rfind(b"\n", self._at, self._at + PIECE_BYTES)
        return None if end < 0 else end + 1

    def _decode(self, piece: bytes, decoders: Decoders) -> list[Any]:
        return decoders[0].decode_lines(piece)

    def _skip(self) -> None:
        """What stands between two jobs."""

    def _next(self) -> bytes | None:
        """The next job; None: there was none."""
        end = self._raw.find(b"\n", self._at)
        end = len(self._raw) if end < 0 else end
        begin, self._at = self._at, end + 1
        if end - begin > json_input.MAX_BODY:
            self._read.append(_too_large())
            return None
        line = self._raw[begin:end]
        return line if line.strip() else None


class _Array(_Lines):
    """An array of jobs."""

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
        """To the next element, or behind the last one."""
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
        assert found is not None, "it matches nothing, too"
        if found.end() - self._at == WINDOW_BYTES:
            raise Malformed(f"the body has more than {WINDOW_BYTES >> 20} MiB of blanks at byte {self._at}")
        return found.end()

    def _close(self, end: int) -> None:
        self._at = end + 1
        if (rest := self._blank_end()) < len(self._raw):
            raise Malformed(f"the body is not JSON: there is more after the array, at byte {rest}")
        self._is_closed = True

    def _next(self) -> bytes | None:
        self._at = self._blank_end()
        item = self._element(PIECE_BYTES) or self._element(json_input.MAX_BODY)
        if item is None:
            raise _too_large()
        self._at += len(item)
        self._skip()
        return item

    def _element(self, most: int) -> bytes | None:
        """The element that begins here; None: it has more than so many bytes."""
        window = self._raw[self._at : self._at + most]
        is_cut = self._at + most < len(self._raw)
        text = window.decode("utf-8", "ignore")
        try:
            _, end = _scanner.raw_decode(text)
        except RecursionError:
            raise Invalid(f"arrays and objects are nested more than {json_input.MAX_DEPTH} deep") from None
        except json.JSONDecodeError as error:
            if is_cut:
                return None
            raise _malformed(self._at + len(text[: error.pos].encode())) from None
        return None if is_cut and end == len(text) else text[:end].encode()


_scanner = json.JSONDecoder(parse_int=len, parse_float=len)
"""Finds where an element ends. The numbers in it are not converted."""


def _too_large() -> TooLarge:
    return TooLarge(f"a job of a batch is larger than {json_input.MAX_BODY >> 20} MiB")


def _malformed(at: int) -> Malformed:
    return Malformed(f"the body is not JSON: it is malformed at byte {at}")
