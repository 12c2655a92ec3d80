"""Routes of API keys. A secret is shown once, and only its digest is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import Struct

from timeball.api.bodies import NewKey, RotateBody
from timeball.api.query import PageQuery
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import moment
from timeball.domain import duration, instant
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.role import Role
from timeball.domain.instant import render
from timeball.operation.registry.create_key import NewKeyRules, create_key
from timeball.operation.registry.revoke_key import revoke_key
from timeball.operation.registry.rotate_key import MAX_OVERLAP, rotate_key
from timeball.ports.store.registry import Key


class KeyView(Struct, frozen=True, rename="camel", kw_only=True):
    key_id: str
    name: str
    role: Role
    scopes: Sequence[str] | None
    """The only permissions of the role that the key has; null: all of them."""
    labels: Sequence[str] | None
    """The only labels that workers with the key may offer; null: any labels."""
    tenants: Sequence[str] | None
    """The tenants that workers with the key serve; null: the tenant of the key."""
    user_id: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """At most a minute before the last use."""
    revoked_at: str | None
    replaces: str | None
    """The id of the key that this one was made from by a rotation."""


T = TypeVar("T", bound=KeyView)


class NewKeyAnswer(KeyView, frozen=True, rename="camel", kw_only=True):
    key: str
    """The secret of the new API key. It is returned only once."""


class KeyList(Struct, frozen=True, rename="camel"):
    items: list[KeyView]
    next_cursor: str | None


async def create(call: Call) -> Answer:
    secret = call.services.new_secret()
    return key_answer(await create_key(call.context, call.caller, rules_of(call.body), secret), secret)


def rules_of(body: NewKey) -> NewKeyRules:
    return NewKeyRules(
        role=body.role,
        name=body.name,
        scopes=None if body.scopes is None else [Permission(scope) for scope in body.scopes],
        labels=body.labels,
        tenants=body.tenants,
        user_id=body.user_id,
        expires_at=None if body.expires_at is None else instant.parse(body.expires_at, "/expiresAt"),
    )


def key_answer(key: Key, secret: str) -> Answer:
    return answer_json(_extended_view(NewKeyAnswer, key, key=secret), 201)


async def list_keys(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_keys(call.tenant, query.after("k"), query.limit)
    return answer_json({"items": rows(page.items, _view, "keyId", lambda key: key.id), "nextCursor": page.next_cursor})


async def rotate(call: Call) -> Answer:
    body: RotateBody = call.body
    try:
        overlap = duration.parse(body.overlap, longest=MAX_OVERLAP)
    except Invalid as error:
        raise Invalid(error.detail, "/overlap") from None
    secret = call.services.new_secret()
    old, new = await rotate_key(call.context, call.caller, call.path["keyId"], overlap, secret)
    call.services.forget_key(old)
    return key_answer(new, secret)


async def revoke(call: Call) -> Answer:
    call.services.forget_key(await revoke_key(call.context, call.caller, call.path["keyId"]))
    return Answer(status=204)


def _view(key: Key) -> KeyView:
    return _extended_view(KeyView, key)


def _extended_view(kind: type[T], of: Key, **more: str) -> T:
    return kind(
        key_id=of.id,
        name=of.name,
        role=of.role,
        scopes=of.scopes,
        labels=of.labels,
        tenants=of.tenants,
        user_id=of.user_id,
        created_at=render(of.created_at),
        expires_at=moment(of.expires_at),
        last_used_at=moment(of.last_used_at),
        revoked_at=moment(of.revoked_at),
        replaces=of.replaces,
        **more,
    )


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/api-keys",
        permission=Permission.ADMIN,
        summary="Create an API key",
        audit="api-key.create",
        description="Only this answer contains the secret.",
        handle=create,
        body=NewKey,
        answer=NewKeyAnswer,
        status=201,
        example={"role": "worker", "name": "rack 3", "labels": ["gpu"], "expiresAt": "2036-01-01T00:00:00Z"},
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/api-keys",
        permission=Permission.ADMIN,
        summary="List API keys",
        handle=list_keys,
        query=PageQuery,
        answer=KeyList,
    ),
    Route(
        method="POST",
        path="/v1/api-keys/{keyId}/rotate",
        permission=Permission.ADMIN,
        summary="Rotate an API key",
        audit="api-key.rotate",
        description=(
            "Creates a key with the same rules, and lets the old one expire after `overlap`. A key that expires gets"
            " its lifetime again. Only this answer contains the secret."
        ),
        handle=rotate,
        body=RotateBody,
        body_optional=True,
        answer=NewKeyAnswer,
        status=201,
        example={"overlap": "1h"},
        problems=(404, 409),
    ),
    Route(
        method="DELETE",
        path="/v1/api-keys/{keyId}",
        permission=Permission.ADMIN,
        summary="Revoke an API key",
        audit="api-key.revoke",
        description="Takes effect at once on this server, and within 3 seconds on the others.",
        handle=revoke,
        status=204,
        problems=(404, 409),
    ),
)
