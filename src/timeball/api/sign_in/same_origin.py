"""Refuses requests with a cookie that pages of other sites made a browser send (CSRF)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from timeball.api.problems import CrossSite
from timeball.api.sign_in.site import Site

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


def check_same_origin(site: Site, method: str, headers: Mapping[bytes, bytes]) -> None:
    """Raise `CrossSite` unless the request comes from the server's own page, according to the headers that the
    browser sets; a request with a safe method may lack them, or come from no page. Other methods need JSON. A page
    of another site cannot set these headers. It can send a form without a preflight request, and any other content
    type only after the server allowed it in a preflight, which this server never does."""
    fetched_from = headers.get(b"sec-fetch-site")
    if method in SAFE_METHODS:
        if fetched_from not in (None, b"same-origin", b"none"):
            raise CrossSite("a page of another site sent this request; a session can be used by the web UI alone")
        return
    if fetched_from != b"same-origin":
        if fetched_from is not None:
            raise CrossSite("a page of another site sent this request; a session can be used by the web UI alone")
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if origin is None:
            raise CrossSite("a write with a session needs the header Sec-Fetch-Site or Origin, which browsers send")
        if not site.is_own_origin(origin.decode("latin-1"), host.decode("latin-1")):
            raise CrossSite("the Origin header is not the address of this server; set it with --public-url")
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise CrossSite("a write with a session needs the header 'Content-Type: application/json'")
