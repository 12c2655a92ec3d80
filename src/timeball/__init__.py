"""Timeball: every fire on time, and accounted for.

The names in `__all__` are the whole public interface. Each is imported when it is first used, so that `import timeball`
itself is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from `typing` would take longer than the rest of this module
if TYPE_CHECKING:
    from timeball.client.async_client import AsyncClient
    from timeball.client.client import Client
    from timeball.client.preview import next_fires
    from timeball.domain.errors import Conflict, Invalid, NotFound, TimeballError, Unauthorized, Unavailable
    from timeball.tasks import Context, task

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Context",
    "Invalid",
    "NotFound",
    "TimeballError",
    "Unauthorized",
    "Unavailable",
    "__version__",
    "next_fires",
    "task",
]

_ERRORS = "timeball.domain.errors"
_HOMES = {
    "AsyncClient": "timeball.client.async_client",
    "Client": "timeball.client.client",
    "Conflict": _ERRORS,
    "Context": "timeball.tasks",
    "Invalid": _ERRORS,
    "NotFound": _ERRORS,
    "TimeballError": _ERRORS,
    "Unauthorized": _ERRORS,
    "Unavailable": _ERRORS,
    "next_fires": "timeball.client.preview",
    "task": "timeball.tasks",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'timeball' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
