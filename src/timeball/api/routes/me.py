"""The route that shows the credential of the request."""

from __future__ import annotations

from typing import Final

from timeball.api.routes.credential_view import CredentialView, credential_view
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain.identity.permission import Permission


async def me(call: Call) -> Answer:
    return answer_json(credential_view(call, call.caller, call.session))


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
