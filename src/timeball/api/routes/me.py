"""The route that shows the credential of the request."""

from __future__ import annotations

from typing import Final

from timeball.api.routes.credential_view import CredentialView, credential_view
from timeball.api.routing import Answer, Call, Permission, Route, answer_json


async def me(call: Call) -> Answer:
    assert call.key is not None
    return answer_json(credential_view(call, call.key, call.session))


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/me",
        permission=Permission.KEY,
        summary="Show the credential of the request",
        description="Its key, tenant and permissions, and the version, store and time of the server.",
        handle=me,
        answer=CredentialView,
    ),
)
