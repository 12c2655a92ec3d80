"""The page of the web UI. Each answer has a nonce of its own for style elements."""

from __future__ import annotations

import html
from typing import Final

BASE: Final = "__TIMEBALL_BASE__"
"""Stands in `index.html` for the base path, which begins and ends with a slash."""
NONCE: Final = "__TIMEBALL_NONCE__"
"""Stands in `index.html` for the nonce of style elements."""
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%b'; img-src 'self' data:; font-src 'self';"
    b" connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'self'; form-action 'self';"
    b" frame-ancestors 'none'"
)


class IndexPage:
    """`index.html` with the base path filled in; `render` fills in the nonce."""

    def __init__(self, text: str, base_path: str) -> None:
        whole = text.replace(BASE, html.escape(base_path))
        self._parts = [part.encode() for part in whole.split(NONCE)]

    def render(self, nonce: bytes) -> bytes:
        return nonce.join(self._parts)


def content_security_policy(nonce: bytes) -> bytes:
    """Return the policy of the page: no inline script, no style element without the nonce, nothing from other servers,
    and no frame around it.
    """
    return _POLICY % nonce
