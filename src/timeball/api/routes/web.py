"""Serves the web UI. Its page and files need no key: they contain no data, and request all data from the API."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Final

from timeball.api.routing import TEXT, Answer, Call, Headers, Request, Route
from timeball.domain.errors import NotFound
from timeball.domain.identity.permission import Permission
from timeball.slices import beside
from timeball.web.index_page import IndexPage, content_security_policy
from timeball.web.static_files import ASSETS, INDEX, Bundle, StaticFile, read_bundle

HTML: Final = b"text/html; charset=utf-8"
IMMUTABLE: Final = b"public, max-age=31536000, immutable"
NO_CACHE: Final = b"no-cache"
"""The header by which a browser may use a cached copy only after it has checked with the server that the copy is
current."""
_API: Final = ("v1", "docs", "openapi.json", "livez", "readyz", "metrics")
"""The first segments of paths that belong to the API and are never pages."""
_OF_PAGES: Final = (
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"Accept, Sec-Fetch-Mode"),
)
_NOT_BUILT: Final = b"""The web UI was not built. In the source folder, run

    make web

and start the server again. The API works without it: see /docs and /openapi.json.
"""


def is_navigation(request: Request) -> bool:
    """True if the browser requests a document to show as a page, and not data for a script."""
    return (
        request.headers.get(b"sec-fetch-mode") == b"navigate"
        or b"text/html" in request.headers.get(b"accept", b"").lower()
    )


class WebUi:
    """The files of the web UI. They are read once, in a thread, when a browser asks for the first one."""

    def __init__(self, folder: Traversable, base_path: str) -> None:
        self._folder = folder
        self._base_path = base_path
        self._bundle: Bundle | None = None

    async def __call__(self) -> Bundle:
        return await beside(self._read) if self._bundle is None else self._bundle

    def _read(self) -> Bundle:
        if self._bundle is None:  # requests that arrive at the same time wait for the first one
            self._bundle = read_bundle(self._folder, self._base_path)
        return self._bundle


async def serve(call: Call) -> Answer:
    """Return a file of the web UI, or its page for a path that a browser opens and that the API does not use."""
    path = _below(call.request.path, call.services.sessions.site.address.base_path)
    bundle = await call.services.web_ui()
    if (found := bundle.files.get(path)) is not None:
        return _file(found, call.headers)
    if path not in ("", INDEX) and not _is_page(path, call.request):
        raise NotFound("page", call.request.path[:200])
    return _page(bundle.index, call)


def _is_page(path: str, request: Request) -> bool:
    return not path.startswith(ASSETS) and path.split("/")[0] not in _API and is_navigation(request)


def _below(path: str, base_path: str) -> str:
    """Return the path below the base path. A proxy may have removed the base path from the request or not."""
    if path + "/" == base_path:
        return ""
    return path.removeprefix(base_path) if base_path != "/" and path.startswith(base_path) else path.removeprefix("/")


def _page(index: IndexPage | None, call: Call) -> Answer:
    if index is None:
        return Answer(_NOT_BUILT, 404, TEXT)
    nonce = b"%032x" % call.context.rng.getrandbits(128)
    headers: Headers = [(b"content-security-policy", content_security_policy(nonce)), *_OF_PAGES]
    return Answer(index.render(nonce), content_type=HTML, headers=headers, cache_control=NO_CACHE)


def _file(file: StaticFile, headers: Mapping[bytes, bytes]) -> Answer:
    cache_control = IMMUTABLE if file.is_immutable else NO_CACHE
    body, tag = file.plain, f'"{file.digest}"'
    answered: Headers = []
    if file.gzipped is not None:
        answered.append((b"vary", b"Accept-Encoding"))
        if _accepts_gzip(headers.get(b"accept-encoding", b"")):
            body, tag = file.gzipped, f'"{file.digest}-gzip"'
            answered.append((b"content-encoding", b"gzip"))
    answered.append((b"etag", tag.encode()))
    if _matches(headers.get(b"if-none-match", b""), tag):
        return Answer(status=304, headers=answered, cache_control=cache_control)
    return Answer(body, content_type=file.content_type, headers=answered, cache_control=cache_control)


def _accepts_gzip(header: bytes) -> bool:
    """True if an `Accept-Encoding` header names gzip, and not with the weight 0."""
    for part in header.lower().split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def _matches(header: bytes, tag: str) -> bool:
    """True if an `If-None-Match` header names this tag, or any."""
    tags = [each.strip().removeprefix("W/") for each in header.decode("latin-1").split(",")]
    return tag in tags or "*" in tags


PAGE: Final = Route(
    method="GET",
    path="/",
    permission=Permission.PUBLIC,
    summary="The web UI",
    handle=serve,
    content_type="text/html",
)
"""The route that answers browsers on every path that no other route has."""
