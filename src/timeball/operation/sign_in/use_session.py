"""Store that a web session is in use."""

from __future__ import annotations

import structlog

from timeball.domain.errors import Unavailable
from timeball.operation.context import OperationContext

_log = structlog.get_logger()


async def use_session(context: OperationContext, digest: str) -> None:
    """Store that the session was used. If the store cannot be written, the error is ignored, because the request itself
    may only read."""
    try:
        await context.store.use_session(digest)
    except Unavailable as error:
        _log.warning("the use of a web session could not be stored", reason=error.detail)
