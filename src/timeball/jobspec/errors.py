"""Bodies that cannot be read. Apart from the other problems, so that the command line, which reads jobs from files as
the API does, need not import what a server logs with."""

from __future__ import annotations

from timeball.domain.errors import TimeballError


class Malformed(TimeballError):
    """The body is not JSON, or not text at all."""

    code = "malformed"


class UnsupportedEncoding(TimeballError):
    """A compressed body: its size cannot be bounded before it is unpacked."""

    code = "unsupported_encoding"
