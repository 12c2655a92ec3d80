"""The pages that describe the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from timeball.api.documentation import openapi
from timeball.api.documentation.docs_page import docs_page
from timeball.api.routing import Answer, Headers, Route
from timeball.slices import beside


class Documents:
    """`/openapi.json` and `/docs`, created once, in a thread, because that takes longer than a run may be late."""

    def __init__(self, routes: Sequence[Route], version: str, base_path: str) -> None:
        self._routes = routes
        self._version = version
        self._base_path = base_path
        self._made: dict[str, Answer] = {}

    async def __call__(self) -> Mapping[str, Answer]:
        return self._made or await beside(self._make)

    def _make(self) -> Mapping[str, Answer]:
        if not self._made:  # requests that arrive at the same time wait for the first one
            document = openapi.document(self._routes, self._version, self._base_path)
            page, policy = docs_page(document)
            headers: Headers = [(b"content-security-policy", policy)]
            self._made = {
                "/openapi.json": Answer(msgspec.json.encode(document)),
                "/docs": Answer(page, content_type=b"text/html; charset=utf-8", headers=headers),
            }
        return self._made
