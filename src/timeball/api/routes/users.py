"""Routes of the users of a tenant."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from timeball.api.bodies import NewUser, UserChange
from timeball.api.query import PageQuery
from timeball.api.routes.jobs.jobs import if_match
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import moment
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.role import Role
from timeball.domain.identity.user import User, UserState
from timeball.domain.instant import render
from timeball.operation.tenants.find import find_user
from timeball.operation.tenants.manage_users import create_user, delete_user, update_user


class UserView(Struct, frozen=True, rename="camel", kw_only=True):
    user_id: str
    name: str
    email: str
    role: Role
    state: UserState
    subject: str | None
    version: int
    created_at: str
    updated_at: str
    last_seen_at: str | None


class UserList(Struct, frozen=True, rename="camel"):
    items: list[UserView]
    next_cursor: str | None


async def list_users(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_users(call.tenant, query.cursor or None, query.limit)
    shown = rows(page.items, _view, "userId", lambda user: user.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    return _answer(await find_user(call.context, call.tenant, call.path["userId"]))


async def create(call: Call) -> Answer:
    body: NewUser = call.body
    user = User(
        id=body.user_id,
        tenant=call.tenant,
        name=body.name,
        email=body.email,
        role=body.role,
        subject=body.subject,
        created_at=0,
        updated_at=0,
    )
    return _answer(await create_user(call.context, call.caller, user), 201)


async def change(call: Call) -> Answer:
    body: UserChange = call.body
    given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}

    def changed(user: User) -> User:
        return replace(user, **given)

    user_id = call.path["userId"]
    matched = if_match(call)
    return _answer(await update_user(call.context, call.caller, user_id, changed, if_match=matched))


async def delete(call: Call) -> Answer:
    await delete_user(call.context, call.caller, call.path["userId"])
    return Answer(status=204)


def _answer(user: User, status: int = 200) -> Answer:
    return answer_json(_view(user), status, [(b"etag", b'"%d"' % user.version)])


def _view(user: User) -> UserView:
    return UserView(
        user_id=user.id,
        name=user.name,
        email=user.email,
        role=user.role,
        state=user.state,
        subject=user.subject,
        version=user.version,
        created_at=render(user.created_at),
        updated_at=render(user.updated_at),
        last_seen_at=moment(user.last_seen_at),
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/users",
        permission=Permission.ADMIN,
        summary="List users",
        handle=list_users,
        query=PageQuery,
        answer=UserList,
    ),
    Route(
        method="POST",
        path="/v1/users",
        permission=Permission.ADMIN,
        summary="Create a user",
        audit="user.create",
        description="The role limits the keys of the user, and its tokens of an identity provider.",
        handle=create,
        body=NewUser,
        answer=UserView,
        status=201,
        example={"userId": "anna", "role": "editor", "name": "Anna", "email": "anna@example.org"},
        problems=(409,),
    ),
    Route(
        method="GET",
        path="/v1/users/{userId}",
        permission=Permission.ADMIN,
        summary="Read a user",
        handle=read,
        answer=UserView,
        problems=(404,),
    ),
    Route(
        method="PATCH",
        path="/v1/users/{userId}",
        permission=Permission.ADMIN,
        summary="Change a user",
        audit="user.update",
        description="Missing fields keep their values. A change takes effect within 3 seconds.",
        handle=change,
        body=UserChange,
        answer=UserView,
        headers={"If-Match": "The version (`ETag`) that the change is based on; 412 if it is not current."},
        example={"state": "disabled"},
        problems=(404, 409, 412),
    ),
    Route(
        method="DELETE",
        path="/v1/users/{userId}",
        permission=Permission.ADMIN,
        summary="Delete a user",
        audit="user.delete",
        description="Revokes the keys of the user. Its jobs stay.",
        handle=delete,
        status=204,
        problems=(404, 409),
    ),
)
