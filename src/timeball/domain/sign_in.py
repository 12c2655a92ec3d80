"""How long browsers stay signed in, and how long a one-time link can be used."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import DAY, HOUR, MINUTE, Micros

SESSION_IDLE_TIME: Final[Micros] = 12 * HOUR
"""A web session ends when it was not used for this long."""
SESSION_LIFETIME: Final[Micros] = 7 * DAY
"""A web session ends this long after the sign-in, also if it is in use."""
SESSION_USE_INTERVAL: Final[Micros] = 5 * MINUTE
"""The last use of a web session is stored at most once in this time, so that most requests cost no write. A session may
end this much before its idle time is over.
"""
SIGN_IN_TOKEN_LIFETIME: Final[Micros] = 10 * MINUTE
SIGN_IN_ATTEMPT_LIFETIME: Final[Micros] = 10 * MINUTE
"""A sign-in at the identity provider has to be finished within this time."""
MAX_SESSIONS_PER_KEY: Final = 100
"""Maximum number of web sessions of one API key, or of one user of the identity provider. A further sign-in ends the
session that was not used for the longest time."""


def session_ends_at(created_at: Micros, last_used_at: Micros, expires_at: Micros | None = None) -> Micros:
    """Return when a web session ends if it is not used again. It never ends after `expires_at`, if that is given."""
    ends_at = min(last_used_at + SESSION_IDLE_TIME, created_at + SESSION_LIFETIME)
    return ends_at if expires_at is None else min(ends_at, expires_at)
