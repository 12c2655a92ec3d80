"""The TLS certificate of a server. It is loaded again when its files change."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import structlog

from timeball import system
from timeball.config import InvalidSetting
from timeball.domain.instant import SECOND, Micros

CHECK_INTERVAL: Final = SECOND
"""Minimum number of microseconds between two checks whether the files have changed."""

_log = structlog.get_logger()


class Certificate:
    def __init__(self, cert: Path, key: Path) -> None:
        self._cert = cert
        self._key = key
        self._seen = self._stamp()
        self._checked_at: Micros = system.monotonic()
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"tls_cert {str(cert)!r} and tls_key {str(key)!r} cannot be used: {error}; write a certificate chain"
                " and its key, both as PEM and without a password"
            ) from None

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        now = system.monotonic()
        if now - self._checked_at >= CHECK_INTERVAL:
            self._checked_at = now
            self._renew()
        return self._context

    def _renew(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:  # possibly only one of the two files was replaced yet
            _log.warning("the new certificate cannot be used; the previous one stays in use", reason=str(error))
        else:
            _log.info("the new certificate is in use", cert=str(self._cert))
        self._seen = stamp

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # fail instead of asking for a password on the terminal
        context.load_cert_chain(self._cert, self._key, password=lambda: b"")
        return context

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes when one of the files changes."""
        found = []
        for path in (self._cert, self._key):
            try:
                status = path.stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)
