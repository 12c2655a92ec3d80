"""Errors for request bodies that cannot be read. They are in a module of their own because the command line reads job
files with the same code as the API, and must not import the logging of the server.
"""

from __future__ import annotations

from timeball.domain.errors import TimeballError


class Malformed(TimeballError):
    """The body is not JSON, or not UTF-8."""

    code = "malformed"


class UnsupportedEncoding(TimeballError):
    """The body is compressed. Its real size cannot be limited before it is decompressed."""

    code = "unsupported_encoding"
