"""Log what this version of Timeball cannot read, once per process."""

from __future__ import annotations

from typing import Final

import structlog

MAX_LOGGED_JOBS: Final = 10_000
_logged: Final[set[str]] = set()
_log = structlog.get_logger()


def unread(job_id: str, error: Exception) -> None:
    """Log that a job, or another object, cannot be read, once per process."""
    if job_id not in _logged and len(_logged) < MAX_LOGGED_JOBS:
        _logged.add(job_id)
        _log.error("stored object cannot be read; skipped", job=job_id, reason=str(error) or type(error).__name__)
