"""Routes of API keys. A secret is shown once, and only its digest is stored."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.api.bodies import NewKey
from timeball.api.routing import Answer, Call, Permission, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import moment
from timeball.domain.instant import render
from timeball.operation.registry.create_key import create_key
from timeball.operation.registry.revoke_key import revoke_key
from timeball.ports.store.registry import Key, Role


class KeyView(Struct, frozen=True, rename="camel", kw_only=True):
    key_id: str
    name: str
    role: Role
    created_at: str
    revoked_at: str | None


class NewKeyAnswer(KeyView, frozen=True, rename="camel", kw_only=True):
    key: str
    """The secret of the new API key. It is returned only once."""


class KeyList(Struct, frozen=True, rename="camel"):
    items: list[KeyView]
    next_cursor: str | None = None


async def create(call: Call) -> Answer:
    body: NewKey = call.body
    secret = call.services.new_secret()
    key = await create_key(call.context, call.tenant, body.role, body.name, secret)
    return answer_json(
        NewKeyAnswer(
            key_id=key.id,
            name=key.name,
            role=key.role,
            created_at=render(key.created_at),
            revoked_at=None,
            key=secret,
        ),
        201,
    )


async def list_keys(call: Call) -> Answer:
    keys = [key for key in await call.context.store.keys() if key.tenant == call.tenant]
    return answer_json({"items": rows(keys, _view, "keyId", lambda key: key.id), "nextCursor": None})


async def revoke(call: Call) -> Answer:
    used = None if call.key is None else call.key.id
    call.services.forget_key(await revoke_key(call.context, call.tenant, call.path["keyId"], used=used))
    return Answer(status=204)


def _view(key: Key) -> KeyView:
    return KeyView(
        key_id=key.id,
        name=key.name,
        role=key.role,
        created_at=render(key.created_at),
        revoked_at=moment(key.revoked_at),
    )


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/api-keys",
        permission=Permission.ADMIN,
        summary="Create an API key",
        description="Only this answer contains the secret.",
        handle=create,
        body=NewKey,
        answer=NewKeyAnswer,
        status=201,
        example={"role": "worker", "name": "rack 3"},
    ),
    Route(
        method="GET",
        path="/v1/api-keys",
        permission=Permission.ADMIN,
        summary="List API keys",
        handle=list_keys,
        answer=KeyList,
    ),
    Route(
        method="DELETE",
        path="/v1/api-keys/{keyId}",
        permission=Permission.ADMIN,
        summary="Revoke an API key",
        description="Takes effect at once on this server, and within 3 seconds on the others.",
        handle=revoke,
        status=204,
        problems=(404, 409),
    ),
)
