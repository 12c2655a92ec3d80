"""The type of a request, and the functions that all requests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from timeball.client.job_document import moment

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Params = dict[str, Any]
When = datetime | str
Edit = Mapping[str, Any]
"""The JSON of an edit, such as `{"parameters": {"region": "eu"}, "timeout": "1h"}`."""


class ApiRequest(Struct, Generic[T_co], frozen=True, kw_only=True):
    """A request of the API, independent of the client that sends it."""

    method: str
    path: str
    answer: type[T_co]
    """Type of the decoded answer; `bytes` for the body as it is."""
    params: Params = {}
    body: Any = None
    headers: dict[str, str] = {}
    repeatable: bool
    """True if sending the request twice has the same effect as sending it once."""

    @property
    def target(self) -> str:
        """The path and the query of the request."""
        query = urlencode([pair for pair in self.params.items() if pair[1] is not None], doseq=True)
        return f"{self.path}?{query}" if query else self.path


class ListPart(Protocol[T_co]):
    """The answer to a request for a part of a list. `next_cursor` is None on the last page."""

    @property
    def items(self) -> Sequence[T_co]: ...
    @property
    def next_cursor(self) -> str | None: ...


def get(path: str, answer: type[T], **params: Any) -> ApiRequest[T]:
    return ApiRequest(method="GET", path=path, answer=answer, params=params, repeatable=True)


def post(path: str, answer: type[T], body: Any = None, *, repeatable: bool = False) -> ApiRequest[T]:
    return ApiRequest(method="POST", path=path, answer=answer, body=body, repeatable=repeatable)


def moment_text(value: When | None) -> str | None:
    return None if value is None else moment(value)


def fresh_key() -> str:
    """Return a new random idempotency key."""
    from timeball.system import rng

    return f"{rng().getrandbits(128):032x}"
