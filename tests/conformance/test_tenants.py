"""Tenants, their users, and API keys with limits."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, one_shot, worker
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.audit_log.entry import SYSTEM_CHAIN, Actor
from timeball.domain.errors import Conflict, NotFound, PreconditionFailed
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.user import User
from timeball.domain.instant import SECOND
from timeball.domain.tenant import DEFAULT_TENANT, Prices, Tenant, TenantLimits
from timeball.ports.store.registry import Key
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.sign_in import NewSession
from timeball.ports.store.store import Store
from timeball.ports.store.tenants import CredentialUse
from timeball.stores.sql.migrate import known

LIMITS = TenantLimits(
    weight=2.5, concurrent_runs=7, jobs=100, runs_per_day=10**12, stored_bytes=1 << 40, requests_per_second=0.5,
    request_burst=3, max_priority=8, prices=Prices(run=Decimal("0.0001"), cpu_second=Decimal("12.000000000001")),
)  # fmt: skip


def tenant(tenant_id: str = "acme", **fields: Any) -> Tenant:
    return Tenant(id=tenant_id, created_at=5, updated_at=5, **fields)


def user(user_id: str = "anna", tenant_id: str = "acme", **fields: Any) -> User:
    return User(**{"id": user_id, "tenant": tenant_id, "role": "editor", "created_at": 5, "updated_at": 5, **fields})


def key(digest: str, tenant_id: str = "acme", **fields: Any) -> Key:
    same = {"tenant": tenant_id, "name": "n", "role": "editor", "digest": digest, "created_at": 1}
    return Key(id=f"k_{digest:0>28}", **{**same, **fields})


def audited(store: Store, tenant_id: str = "default") -> Store:
    actor = Actor(kind="key", id="k_1", name="root")
    return store.audited(AuditedRequest(tenant=tenant_id, actor=actor, address="", action="change"))


async def changes(store: Store, chain: str) -> list[tuple[str, str]]:
    return [(each.resource, each.resource_id) for each in await store.audit_entries(chain, 0, 100)]


async def test_there_is_always_the_default_tenant(store: Store) -> None:
    assert [(each.id, each.state, each.limits) for each in await store.tenants()] == [
        (DEFAULT_TENANT, "active", TenantLimits())
    ]


async def test_a_tenant_is_created_read_changed_and_listed(store: Store) -> None:
    made = await store.create_tenant(tenant(name="ACME", description="d", limits=LIMITS))
    assert await store.tenant("acme") == made == tenant(name="ACME", description="d", limits=LIMITS)
    changed = await store.update_tenant(replace(made, name="B", limits=TenantLimits(), updated_at=9))
    assert (
        changed == await store.tenant("acme") == replace(made, name="B", limits=TenantLimits(), updated_at=9, version=2)
    )
    for each in ("b", "c"):
        await store.create_tenant(tenant(each))
    first = await store.list_tenants(None, 2)
    second = await store.list_tenants(first.next_cursor, 2)
    assert [[each.id for each in page.items] for page in (first, second)] == [["acme", "b"], ["c", "default"]]
    assert second.next_cursor is None
    assert await store.tenant("other") is None


async def test_a_repeated_call_changes_nothing_and_a_different_one_is_refused(store: Store) -> None:
    """I14."""
    assert await audited(store).create_tenant(tenant()) == await audited(store).create_tenant(tenant())
    with pytest.raises(Conflict, match="acme"):
        await store.create_tenant(replace(tenant(), created_at=6))
    renamed = replace(tenant(), name="B", updated_at=9)
    assert await audited(store).update_tenant(renamed) == await audited(store).update_tenant(renamed)
    assert await changes(store, SYSTEM_CHAIN) == [("tenant", "acme")] * 2
    with pytest.raises(PreconditionFailed, match="version 2"):
        await store.update_tenant(replace(tenant(), name="C", updated_at=10))
    with pytest.raises(NotFound):
        await store.update_tenant(tenant("other"))


async def test_a_tenant_that_is_being_deleted_stays_so(store: Store) -> None:
    made = await store.create_tenant(tenant())
    deleting = await store.update_tenant(replace(made, state="deleting"))
    with pytest.raises(Conflict, match="being deleted"):
        await store.update_tenant(replace(deleting, state="active"))


async def test_only_one_of_concurrent_changes_of_a_version_is_written(stores: tuple[Store, Store]) -> None:
    made = await stores[0].create_tenant(tenant())
    tried = [stores[at % 2].update_tenant(replace(made, name=f"n{at}", updated_at=at)) for at in range(6)]
    answers = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["PreconditionFailed"] * 5 + ["Tenant"]


async def test_users_belong_to_one_tenant(store: Store) -> None:
    anna = await audited(store, "acme").create_user(user(name="Anna", email="a@example.org", subject="s1"))
    await store.create_user(user(tenant_id="other", subject="s1"))
    assert await store.user("acme", "anna") == anna == await store.user_by_subject("acme", "s1")
    assert await store.user("default", "anna") is None
    assert await store.user_by_subject("default", "s1") is None
    assert [each.tenant for each in (await store.list_users("acme", None, 10)).items] == ["acme"]
    assert not await store.delete_user("default", "anna")
    with pytest.raises(NotFound):
        await store.update_user(replace(anna, tenant="default"))
    assert await changes(store, "acme") == [("user", "anna")]


async def test_users_are_listed_in_pages_and_changed_by_version(store: Store) -> None:
    for each in ("b", "a", "c"):
        await store.create_user(user(each))
    first = await store.list_users("acme", None, 2)
    second = await store.list_users("acme", first.next_cursor, 2)
    assert [each.id for each in (*first.items, *second.items)] == ["a", "b", "c"]
    changed = await store.update_user(replace(user("a"), role="viewer", state="disabled", updated_at=7))
    assert changed == await store.user("acme", "a")
    assert (changed.role, changed.state, changed.version) == ("viewer", "disabled", 2)
    assert await store.update_user(replace(user("a"), role="viewer", state="disabled", updated_at=7)) == changed
    with pytest.raises(PreconditionFailed, match="version 2"):
        await store.update_user(replace(user("a"), name="x"))


async def test_an_id_and_a_subject_are_given_once_in_a_tenant(store: Store) -> None:
    await store.create_user(user("anna", subject="s1"))
    assert await store.create_user(user("anna", subject="s1")) == user("anna", subject="s1")
    with pytest.raises(Conflict, match="'anna'"):
        await store.create_user(user("anna", created_at=9))
    with pytest.raises(Conflict, match="'s1'"):
        await store.create_user(user("bert", subject="s1"))
    bert = await store.create_user(user("bert"))
    with pytest.raises(Conflict, match="'s1'"):
        await store.update_user(replace(bert, subject="s1"))


async def test_a_key_has_its_limits_and_an_older_server_does_not_take_it(store: Store, tamper: Tamper) -> None:
    await store.create_tenant(tenant())
    await store.create_user(user())
    limited = key(
        "1", role="worker", scopes=(Permission.WORKER,), labels=("gpu", "eu"), tenants=("acme", "b"), user_id="anna",
        expires_at=10**16, replaces="k_0",
    )  # fmt: skip
    await store.add_key(limited)
    assert await store.key_by_digest("1") == replace(limited, user_role="editor")
    assert await store.key("acme", limited.id) == replace(limited, user_role="editor")
    assert await store.key("default", limited.id) is None
    plain = key("2", role="worker")
    await store.add_key(plain)
    await tamper("DELETE FROM keys WHERE role = 'worker'")  # the name that earlier versions know
    assert [each.id for each in await store.keys()] == [limited.id]


async def test_keys_are_listed_by_tenant_in_pages(store: Store) -> None:
    for digest in ("1", "2", "3"):
        await store.add_key(key(digest))
    await store.add_key(key("4", "other"))
    first = await store.list_keys("acme", None, 2)
    second = await store.list_keys("acme", first.next_cursor, 2)
    assert [each.digest for each in (*first.items, *second.items)] == ["3", "2", "1"]
    assert second.next_cursor is None


async def test_a_key_of_no_tenant_of_one_that_is_deleted_or_of_a_disabled_user_is_not_found(store: Store) -> None:
    """I31."""
    await store.add_key(key("d"))
    await store.add_key(key("u", user_id="anna"))
    assert await store.key_by_digest("d") is None
    made = await store.create_tenant(tenant())
    assert await store.key_by_digest("d") is not None
    assert await store.key_by_digest("u") is None
    anna = await store.create_user(user())
    assert await store.key_by_digest("u") is not None
    anna = await store.update_user(replace(anna, state="disabled"))
    assert await store.key_by_digest("u") is None
    anna = await store.update_user(replace(anna, state="active"))
    assert await store.key_by_digest("u") is not None
    await store.update_tenant(replace(made, state="deleting"))
    assert [await store.key_by_digest(digest) for digest in "du"] == [None, None]


async def test_the_role_of_a_user_limits_its_keys(store: Store) -> None:
    await store.create_tenant(tenant())
    anna = await store.create_user(user(role="viewer"))
    await store.add_key(key("u", role="admin", user_id="anna"))
    await store.update_user(replace(anna, role="operator"))
    found = await store.key_by_digest("u")
    assert found is not None
    assert (found.role, found.effective_role) == ("admin", "operator")


async def test_web_sessions_end_with_their_tenant_their_user_and_their_key(store: Store) -> None:
    """I31."""
    made = await store.create_tenant(tenant())
    anna = await store.create_user(user())
    await store.add_key(key("of_user", user_id="anna"))
    await store.add_key(key("of_tenant"))
    await store.add_key(key("expires", expires_at=store.now() + SECOND))
    await store.add_key(key("expired", expires_at=store.now() - SECOND))
    sessions = {}
    for at, digest in enumerate(("of_user", "of_tenant", "expires", "expired")):
        new = NewSession(id=f"s_{at}", digest=digest)
        sessions[digest] = await store.open_web_session(new, key(digest).id)
    assert [digest for digest, session in sessions.items() if session is None] == ["expired"]
    assert await store.add_sign_in_token("t", key("expired").id) is None

    async def valid() -> set[str]:
        return {digest for digest in sessions if await store.session_by_digest(digest) is not None}

    assert valid_digests(await store.list_sessions("acme", None, None, 10)) == await valid()
    await asyncio.sleep(1.05)
    assert await valid() == {"of_user", "of_tenant"} == valid_digests(await store.list_sessions("acme", None, None, 10))
    await store.update_user(replace(anna, state="disabled"))
    assert await valid() == {"of_tenant"}
    await store.update_tenant(replace(made, state="deleting"))
    assert await valid() == set()


def valid_digests(page: Any) -> set[str]:
    return {session.digest for session in page.items}


async def test_a_deleted_user_leaves_no_valid_key(store: Store) -> None:
    await store.create_tenant(tenant())
    await store.create_user(user())
    await store.add_key(key("u", user_id="anna"))
    await store.add_key(key("w", role="worker", user_id="anna"))
    await store.register(worker("w_of_anna", key=key("w").id), LEASE)
    await store.submit([one_shot(store.now())])
    assert await audited(store, "acme").delete_user("acme", "anna")
    assert await store.key_by_digest("u") is None
    assert all(each.revoked_at is not None for each in await store.keys())
    assert (await store.claim([SlotRequest("w_of_anna", "", 1)], 0)).claims == []
    assert not await store.delete_user("acme", "anna")
    ((entry),) = await store.audit_entries("acme", 0, 10)
    assert entry.resource == "api-key" or entry.after is not None


async def test_a_rotated_key_works_until_the_end_of_the_overlap(store: Store) -> None:
    await store.create_tenant(tenant())
    old = key("old", scopes=(Permission.READ,))
    await store.add_key(old)
    ends = store.now() + 10 * SECOND
    new = replace(old, id=key("new").id, digest="new", replaces=old.id)
    assert await store.rotate_key(new, ends) == await store.rotate_key(new, ends) == new
    found = await store.key_by_digest("old")
    assert found is not None
    assert (found.expires_at, found.is_expired(ends - 1), found.is_expired(ends)) == (ends, False, True)
    assert await store.key_by_digest("new") == new
    again = replace(new, id=key("x").id, digest="x")
    with pytest.raises(Conflict, match="rotated before"):
        await store.rotate_key(again, ends)
    with pytest.raises(NotFound):
        await store.rotate_key(replace(again, tenant="other"), ends)
    await store.revoke_key(new.id)
    await store.rotate_key(again, ends + SECOND)
    assert (await store.key("acme", old.id)).expires_at == ends  # type: ignore[union-attr]


async def test_a_key_that_is_not_valid_or_comes_from_settings_is_not_rotated(store: Store) -> None:
    for digest, fields in (("expired", {"expires_at": store.now() - 1}), ("revoked", {})):
        await store.add_key(key(digest, **fields))
    await store.revoke_key(key("revoked").id)
    root = key("root", "default", role="system", name="admin")
    await store.allow_bootstrap_key(root, "configured", None)
    for old, message in ((key("expired"), "expired"), (key("revoked"), "revoked"), (root, "settings")):
        with pytest.raises(Conflict, match=message):
            await store.rotate_key(replace(old, id=key("n").id, digest="n", replaces=old.id), store.now())
    assert await store.key("acme", key("n").id) is None


async def test_the_last_use_of_keys_and_users_only_grows(store: Store) -> None:
    await store.create_user(user())
    await store.add_key(key("u", user_id="anna"))
    await store.add_key(key("v"))

    def use(digest: str | None, user_id: str | None, at: int) -> CredentialUse:
        return CredentialUse(None if digest is None else key(digest).id, "acme", user_id, at)

    await store.note_uses([use("u", "anna", 20), use("u", "anna", 30), use("v", None, 5), use("gone", "gone", 1)])
    await store.note_uses([use("u", "anna", 10), use(None, "anna", 40)])
    await store.note_uses([])
    assert {each.digest: each.last_used_at for each in await store.keys()} == {"u": 30, "v": 5}
    (anna,) = (await store.list_users("acme", None, 10)).items
    assert anna.last_seen_at == 40
    assert (await store.update_user(replace(user(), name="A"))).last_seen_at == 40


def test_the_migration_inserts_the_tenants_that_rows_of_an_earlier_version_name(tmp_path: Path) -> None:
    import sqlite3

    from timeball.stores.sql.dialect import SQLITE

    connection = sqlite3.connect(tmp_path / "old.db")
    for migration in known():
        if migration.name == "tenants":
            rows = "(id, tenant, name, role, digest, created_at) VALUES ('k_1', 'acme', '', 'worker', 'd', 1)"
            connection.execute(f"INSERT INTO keys {rows}")
        for statement in migration.statements(SQLITE):
            compiled = SQLITE.compile(statement.text)
            connection.execute(compiled.sql, {"now": 7} if compiled.asks_time else {})
    found = connection.execute("SELECT id, state, limits, version, created_at FROM tenants ORDER BY id").fetchall()
    connection.close()
    assert found == [("acme", "active", "{}", 1, 7), ("default", "active", "{}", 1, 7)]
