"""API keys: the secret is shown once, and only its digest is kept."""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec import Struct

from timeball.api.bodies import NewKey
from timeball.api.routing import Answer, Call, Permission, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import moment
from timeball.domain import ids
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.instant import render
from timeball.ports.store.registry import Key, Role


class KeyView(Struct, frozen=True, rename="camel", kw_only=True):
    key_id: str
    name: str
    role: Role
    created_at: str
    revoked_at: str | None


class NewKeyAnswer(KeyView, frozen=True, rename="camel", kw_only=True):
    key: str
    """The secret. It cannot be shown again."""


class KeyList(Struct, frozen=True, rename="camel"):
    items: list[KeyView]
    next_cursor: str | None = None


async def create(call: Call) -> Answer:
    body: NewKey = call.body
    context = call.context
    now = context.store.now()
    secret = call.services.new_secret()
    key = Key(
        id=ids.make("k", now, context.dice),
        tenant=call.tenant,
        name=body.name,
        role=body.role,
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        created_at=now,
    )
    await context.store.add_key(key)
    return answer_json(
        NewKeyAnswer(key_id=key.id, name=key.name, role=key.role, created_at=render(now), revoked_at=None, key=secret),
        201,
    )


async def list_keys(call: Call) -> Answer:
    keys = [key for key in await call.context.store.keys() if key.tenant == call.tenant]
    return answer_json({"items": rows(keys, _view, "keyId", lambda key: key.id), "nextCursor": None})


async def revoke(call: Call) -> Answer:
    key_id = call.path["keyId"]
    keys = await call.context.store.keys()
    key = next((key for key in keys if key.id == key_id and key.tenant == call.tenant), None)
    if key is None:
        raise NotFound("key", key_id[:100])
    if call.key is not None and key.id == call.key.id:
        raise Conflict("this is the key you are using; revoke it with another one")
    await call.context.store.revoke_key(key.id)
    call.services.forget_key(key)
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
        description="The answer is the only place where the secret is ever shown.",
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
        description="Holds at once on this server, within seconds on the others.",
        handle=revoke,
        status=204,
        problems=(404, 409),
    ),
)
