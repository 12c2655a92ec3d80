"""Create a one-time link that opens the web UI signed in."""

from __future__ import annotations

import hashlib
from typing import Final

from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext

SIGN_IN_PAGE: Final = "#/sign-in?token="
"""The path of the sign-in page, with the token in its fragment. Browsers do not send the fragment to servers or to
other pages."""


async def create_link(context: OperationContext, key_id: str, address: str, token: str) -> tuple[str, Micros]:
    """Return a link to the UI at this address, which ends with a slash, and the time at which it expires. The token
    works once. Only its digest is stored.
    """
    expires_at = await context.store.add_sign_in_token(hashlib.sha256(token.encode()).hexdigest(), key_id)
    if expires_at is None:
        raise Conflict("the key that the link would sign in with was revoked")
    return f"{address}{SIGN_IN_PAGE}{token}", expires_at
