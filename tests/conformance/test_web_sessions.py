"""Web sessions and one-time sign-in tokens, on both databases and as two servers see them."""

import asyncio
import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.conftest import Tamper
from timeball.domain.identity.account import account_id
from timeball.domain.identity.role import Role
from timeball.domain.identity.token_claims import TOKEN_ROLES
from timeball.domain.identity.user import User
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.sign_in import (
    MAX_SESSIONS_PER_KEY,
    SESSION_IDLE_TIME,
    SESSION_LIFETIME,
    SESSION_USE_INTERVAL,
    SIGN_IN_TOKEN_LIFETIME,
)
from timeball.domain.tenant import Tenant
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import NewSession, SessionUser, WebSession
from timeball.ports.store.store import Store

_numbers = itertools.count(1)


def new(digest: str) -> NewSession:
    return NewSession(id=f"s_{next(_numbers):028x}", digest=digest)


async def add_key(store: Store, name: str = "a", tenant: str = "default") -> Key:
    key = Key(id=f"k_{name}", tenant=tenant, name=name, role="admin", digest=f"key {name}", created_at=1)
    await store.add_key(key)
    return key


async def opened(store: Store, digest: str, key: Key) -> WebSession:
    session = await store.open_web_session(new(digest), key.id)
    assert session is not None
    return session


async def listed(store: Store, tenant: str = "default", key_id: str | None = None) -> list[str]:
    return [session.id for session in (await store.list_sessions(tenant, key_id, None, 1_000)).items]


async def test_a_session_acts_with_its_key(stores: tuple[Store, Store]) -> None:
    key = await add_key(stores[0])
    before = stores[0].now()
    session = await opened(stores[0], "d", key)
    found = await stores[1].session_by_digest("d")
    assert found is not None
    assert found.session == session
    assert session.opener == key
    assert before <= session.created_at <= session.last_used_at
    assert session.expires_at == session.last_used_at + SESSION_IDLE_TIME
    assert not found.is_use_due
    assert await stores[1].session_by_digest("other") is None


async def test_opening_the_same_session_again_changes_nothing(store: Store) -> None:
    key = await add_key(store)
    same = new("d")
    first = await store.open_web_session(same, key.id)
    assert first is not None
    assert await store.open_web_session(same, key.id) == first
    assert await listed(store) == [same.id]


async def test_no_session_is_opened_with_a_key_that_is_revoked_or_unknown(store: Store) -> None:
    key = await add_key(store)
    await store.revoke_key(key.id)
    assert await store.open_web_session(new("d"), key.id) is None
    assert await store.open_web_session(new("e"), "k_unknown") is None
    assert await store.add_sign_in_token("t", key.id) is None
    assert await store.session_by_digest("d") is None


async def test_a_session_ends_when_it_is_not_used(store: Store, tamper: Tamper) -> None:
    await opened(store, "d", await add_key(store))
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {SESSION_IDLE_TIME - MINUTE}")
    assert await store.session_by_digest("d") is not None
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {MINUTE}")
    assert await store.session_by_digest("d") is None
    assert await listed(store) == []


async def test_a_session_ends_after_its_lifetime_also_if_it_is_in_use(store: Store, tamper: Tamper) -> None:
    await opened(store, "d", await add_key(store))
    await tamper(f"UPDATE web_sessions SET created_at = created_at - {SESSION_LIFETIME - MINUTE}")
    found = await store.session_by_digest("d")
    assert found is not None
    assert found.session.expires_at == found.session.created_at + SESSION_LIFETIME
    await tamper(f"UPDATE web_sessions SET created_at = created_at - {MINUTE}")
    assert await store.session_by_digest("d") is None
    assert await listed(store) == []


async def test_use_is_stored_once_per_interval_by_all_servers_together(
    stores: tuple[Store, Store], tamper: Tamper
) -> None:
    session = await opened(stores[0], "d", await add_key(stores[0]))
    assert not await stores[0].use_session("d")
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {SESSION_USE_INTERVAL}")
    found = await stores[1].session_by_digest("d")
    assert found is not None
    assert found.is_use_due
    assert sorted(await asyncio.gather(*(store.use_session("d") for store in stores))) == [False, True]
    found = await stores[0].session_by_digest("d")
    assert found is not None
    assert not found.is_use_due
    assert found.session.last_used_at >= session.last_used_at
    assert found.session.created_at == session.created_at


async def test_a_token_is_exchanged_once(stores: tuple[Store, Store]) -> None:
    key = await add_key(stores[0])
    expires_at = await stores[0].add_sign_in_token("t", key.id)
    assert expires_at is not None
    # A node estimates the time of the database, so it may be a little behind.
    assert abs(stores[0].now() + SIGN_IN_TOKEN_LIFETIME - expires_at) < 30 * SECOND
    assert await stores[1].has_sign_in_token("t")
    assert await stores[1].has_sign_in_token("t"), "to look at it does not use it"
    tries = [stores[at % 2].exchange_token(new(f"d{at}"), "t") for at in range(8)]
    signed_in = [session for session in await asyncio.gather(*tries) if session is not None]
    assert [session.opener for session in signed_in] == [key]
    assert not await stores[0].has_sign_in_token("t")
    assert await listed(stores[0]) == [signed_in[0].id]


async def test_a_token_that_is_exchanged_again_after_an_ambiguous_commit_opens_the_same_session(store: Store) -> None:
    key = await add_key(store)
    await store.add_sign_in_token("t", key.id)
    same = new("d")
    first = await store.exchange_token(same, "t")
    assert first is not None
    assert await store.exchange_token(same, "t") == first
    assert await listed(store) == [same.id]


async def test_adding_a_token_again_does_not_prolong_it(store: Store, tamper: Tamper) -> None:
    key = await add_key(store)
    first = await store.add_sign_in_token("t", key.id)
    await tamper("UPDATE sign_in_tokens SET expires_at = expires_at - 1000")
    assert first is not None
    assert await store.add_sign_in_token("t", key.id) == first - 1000


async def test_a_token_expires(store: Store, tamper: Tamper) -> None:
    key = await add_key(store)
    await store.add_sign_in_token("t", key.id)
    await tamper(f"UPDATE sign_in_tokens SET expires_at = expires_at - {SIGN_IN_TOKEN_LIFETIME}")
    assert not await store.has_sign_in_token("t")
    assert await store.exchange_token(new("d"), "t") is None
    assert await store.exchange_token(new("d"), "unknown") is None
    assert await listed(store) == []


@pytest.mark.parametrize("source", ["revoked", "replaced"])
async def test_a_key_that_is_revoked_ends_its_sessions_and_tokens(store: Store, source: str) -> None:
    key, other = Key(id="k_1", tenant="default", name="admin", role="system", digest="old", created_at=1), "k_2"
    await store.allow_bootstrap_key(key, "configured", None)
    await add_key(store, "other")
    await opened(store, "d", key)
    kept = await store.open_web_session(new("kept"), "k_other")
    await store.add_sign_in_token("t", key.id)
    replaced = Key(id=other, tenant="default", name="admin", role="system", digest="new", created_at=1)
    if source == "revoked":
        assert await store.revoke_key(key.id)
    else:
        await store.allow_bootstrap_key(replaced, "configured", "old")
    assert await store.session_by_digest("d") is None
    assert not await store.has_sign_in_token("t")
    assert await store.exchange_token(new("e"), "t") is None
    assert kept is not None
    assert await listed(store) == [kept.id]
    if source == "replaced":  # the old key is valid again, and its sessions stay ended
        await store.allow_bootstrap_key(key, "configured", "new")
        assert await store.key_by_digest("old") is not None
        assert await store.session_by_digest("d") is None


async def test_a_session_is_revoked_by_its_tenant_alone(stores: tuple[Store, Store]) -> None:
    """I24."""
    key, stranger = await add_key(stores[0]), await add_key(stores[0], "s", tenant="other")
    colleague = await add_key(stores[0], "c")
    session = await opened(stores[0], "d", key)
    assert await stores[0].revoke_session(stranger.tenant, None, session.id) is None
    assert await stores[0].revoke_session(key.tenant, colleague.id, session.id) is None
    assert await stores[0].revoke_session(key.tenant, None, "s_unknown") is None
    assert await stores[1].session_by_digest("d") is not None
    assert await stores[0].revoke_session(key.tenant, key.id, session.id) == "d"
    assert await stores[1].session_by_digest("d") is None
    assert await stores[0].revoke_session(key.tenant, key.id, session.id) is None


async def test_sessions_are_listed_by_tenant_and_key_in_pages_newest_first(store: Store) -> None:
    """I24."""
    await store.create_tenant(Tenant(id="other", created_at=1, updated_at=1))
    key, other, colleague = await add_key(store), await add_key(store, "s", "other"), await add_key(store, "c")
    mine = [(await opened(store, f"d{at}", key)).id for at in range(3)]
    foreign = await opened(store, "f", other)
    beside = await opened(store, "b", colleague)
    first = await store.list_sessions("default", None, None, 3)
    second = await store.list_sessions("default", None, first.next_cursor, 3)
    assert [session.id for session in (*first.items, *second.items)] == [beside.id, *reversed(mine)]
    assert second.next_cursor is None
    assert await listed(store, key_id=key.id) == [*reversed(mine)]
    assert await listed(store, "other") == [foreign.id]


async def test_a_key_has_a_bounded_number_of_sessions(store: Store, tamper: Tamper) -> None:
    key = await add_key(store)
    first = await opened(store, "first", key)
    oldest = await opened(store, "oldest", key)
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {HOUR} WHERE id = '{oldest.id}'")
    for at in range(MAX_SESSIONS_PER_KEY - 1):
        await opened(store, f"d{at}", key)
    found = await listed(store)
    assert len(found) == MAX_SESSIONS_PER_KEY
    assert oldest.id not in found, "the one that was not used for the longest time ends"
    assert first.id in found


async def test_what_has_ended_is_removed_by_what_is_added(store: Store, tamper: Tamper) -> None:
    key = await add_key(store)
    ended = await opened(store, "d", key)
    await store.add_sign_in_token("t", key.id)
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {SESSION_IDLE_TIME}")
    await tamper(f"UPDATE sign_in_tokens SET expires_at = expires_at - {SIGN_IN_TOKEN_LIFETIME}")
    await opened(store, "e", key)
    await store.add_sign_in_token("u", key.id)
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at + {SESSION_IDLE_TIME} WHERE id = '{ended.id}'")
    await tamper(f"UPDATE sign_in_tokens SET expires_at = expires_at + {SIGN_IN_TOKEN_LIFETIME} WHERE digest = 't'")
    assert await store.session_by_digest("d") is None
    assert not await store.has_sign_in_token("t")
    assert await store.has_sign_in_token("u")


# --- users of the identity provider ---------------------------------------------------------------------------------


def of_user(subject: str = "u-1", tenant: str = "default", **changed: Any) -> SessionUser:
    return SessionUser(
        id=account_id(tenant, subject),
        **{
            "tenant": tenant,
            "issuer": "https://id",
            "subject": subject,
            "name": "Zoë",
            "role": "editor",
            **changed,
        },
    )


async def opened_by(store: Store, digest: str, user: SessionUser, lasts: int = HOUR) -> WebSession:
    session = await store.open_user_session(new(digest), user, lasts, f"attempt of {digest}")
    assert session is not None
    return session


async def known(store: Store, **changed: Any) -> User:
    fields = {"id": "zoe", "tenant": "default", "role": "viewer", "subject": "u-1", "created_at": 5, "updated_at": 5}
    return await store.create_user(User(**(fields | changed)))


async def test_a_user_of_the_provider_opens_a_session(stores: tuple[Store, Store]) -> None:
    await add_key(stores[0])
    session = await opened_by(stores[0], "d", of_user())
    found = await stores[1].session_by_digest("d")
    assert found is not None
    assert found.session == session
    assert session.opener == of_user()
    assert session.valid_until is not None
    assert session.created_at + HOUR <= session.expires_at == session.valid_until
    assert not found.is_use_due
    assert [each.opener for each in (await stores[1].list_sessions("default", None, None, 9)).items] == [of_user()]


@pytest.mark.parametrize("role", TOKEN_ROLES)
async def test_the_role_is_that_of_the_provider_limited_by_that_of_the_known_user(store: Store, role: Role) -> None:
    await known(store, role="operator")
    session = await opened_by(store, "d", of_user(role=role))
    assert isinstance(session.opener, SessionUser)
    assert (session.opener.user_id, session.opener.user_role) == ("zoe", "operator")
    assert session.opener.effective_role == ("viewer" if role == "viewer" else "operator")


async def test_a_sign_in_at_the_provider_opens_one_session(stores: tuple[Store, Store]) -> None:
    tries = [stores[at % 2].open_user_session(new(f"d{at}"), of_user(), HOUR, "attempt") for at in range(8)]
    signed_in = [session for session in await asyncio.gather(*tries) if session is not None]
    assert await listed(stores[0]) == [signed_in[0].id]
    assert len(signed_in) == 1


async def test_a_sign_in_that_is_repeated_after_an_ambiguous_commit_opens_the_same_session(store: Store) -> None:
    same = new("d")
    first = await store.open_user_session(same, of_user(), HOUR, "attempt")
    assert first is not None
    assert await store.open_user_session(same, of_user(), HOUR, "attempt") == first
    assert await store.revoke_session("default", None, same.id) == "d"
    assert await store.open_user_session(same, of_user(), HOUR, "attempt") is None, "also after the session has ended"


async def test_a_session_of_a_user_ends_when_it_has_to(store: Store, tamper: Tamper) -> None:
    await opened_by(store, "d", of_user(), lasts=HOUR)
    await tamper(f"UPDATE web_sessions SET expires_at = expires_at - {HOUR - MINUTE}")
    assert await store.session_by_digest("d") is not None
    await tamper(f"UPDATE web_sessions SET expires_at = expires_at - {MINUTE}")
    assert await store.session_by_digest("d") is None
    assert await listed(store) == []


async def test_a_session_of_a_user_ends_also_by_the_rules_of_all_sessions(store: Store, tamper: Tamper) -> None:
    await opened_by(store, "d", of_user(), lasts=2 * SESSION_LIFETIME)
    await opened_by(store, "e", of_user(), lasts=2 * SESSION_LIFETIME)
    await tamper(f"UPDATE web_sessions SET created_at = created_at - {SESSION_LIFETIME} WHERE digest = 'd'")
    await tamper(f"UPDATE web_sessions SET last_used_at = last_used_at - {SESSION_IDLE_TIME} WHERE digest = 'e'")
    assert await store.session_by_digest("d") is None
    assert await store.session_by_digest("e") is None


async def test_the_sessions_of_a_user_that_is_disabled_or_deleted_end(store: Store) -> None:
    user = await known(store)
    await opened_by(store, "d", of_user())
    other = await opened_by(store, "e", of_user("u-2"))
    disabled = await store.update_user(replace(user, state="disabled", updated_at=7))
    assert await store.session_by_digest("d") is None
    assert await store.open_user_session(new("f"), of_user(), HOUR, "f") is None
    await store.update_user(replace(disabled, state="active", updated_at=8))
    assert await listed(store) == [other.id], "none comes back, also none that was refused"
    await opened_by(store, "g", of_user())
    assert await store.delete_user("default", "zoe")
    assert await listed(store) == [other.id]


async def test_a_user_that_is_disabled_behind_the_store_has_no_session(store: Store, tamper: Tamper) -> None:
    await known(store)
    await opened_by(store, "d", of_user())
    await tamper("UPDATE users SET state = 'disabled'")
    assert await store.session_by_digest("d") is None


async def test_no_user_of_a_tenant_that_is_unknown_or_deleted_has_a_session(store: Store, tamper: Tamper) -> None:
    assert await store.open_user_session(new("d"), of_user(tenant="acme"), HOUR, "d") is None
    await store.create_tenant(Tenant(id="acme", created_at=1, updated_at=1))
    assert await store.open_user_session(new("e"), of_user(tenant="acme"), HOUR, "d") is None, "it was used"
    await opened_by(store, "f", of_user(tenant="acme"))
    await tamper("UPDATE tenants SET state = 'deleting' WHERE id = 'acme'")
    assert await store.session_by_digest("f") is None
    assert await store.open_user_session(new("g"), of_user(tenant="acme"), HOUR, "g") is None


async def test_the_users_of_two_tenants_have_nothing_in_common(store: Store) -> None:
    """I24."""
    await store.create_tenant(Tenant(id="acme", created_at=1, updated_at=1))
    user = await known(store, tenant="acme")
    session = await opened_by(store, "d", of_user())
    assert isinstance(session.opener, SessionUser)
    assert session.opener.user_id is None, "the user with the same subject is of the other tenant"
    await store.update_user(replace(user, state="disabled", updated_at=7))
    assert await store.session_by_digest("d") is not None
    assert await store.revoke_session("acme", None, session.id) is None
    assert await store.revoke_session("default", account_id("acme", "u-1"), session.id) is None
    assert await store.revoke_session("default", account_id("default", "u-1"), session.id) == "d"


async def test_a_user_has_a_bounded_number_of_sessions_and_attempts_are_removed(store: Store, tamper: Tamper) -> None:
    for at in range(MAX_SESSIONS_PER_KEY + 1):
        await opened_by(store, f"d{at}", of_user())
    assert len(await listed(store)) == MAX_SESSIONS_PER_KEY
    assert len(await listed(store, key_id=of_user().id)) == MAX_SESSIONS_PER_KEY
    assert await listed(store, key_id="k_a") == []
    await tamper("UPDATE sign_in_attempts SET expires_at = 1 WHERE digest = 'attempt of d0'")
    await opened_by(store, "e", of_user())
    assert await store.open_user_session(new("f"), of_user(), HOUR, "attempt of d0") is not None, "it was removed"
