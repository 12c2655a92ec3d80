"""When the admin key of a server changes, only the key that it replaces is revoked."""

import itertools
from typing import Literal

import msgspec
import pytest

from tests.support.builders import one_shot, worker
from timeball.domain.bootstrap_key import BootstrapSource
from timeball.domain.errors import Conflict
from timeball.domain.instant import MINUTE
from timeball.ports.store.registry import Key
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store

_numbers = itertools.count()


def key(digest: str, name: str = "admin") -> Key:
    return Key(id=f"k_{next(_numbers):04}", tenant="default", name=name, role="system", digest=digest, created_at=1)


class Server:
    """Starts with an admin key, and remembers the last one in its data folder, unless that is lost with it."""

    def __init__(self, store: Store, *, forgets: bool = False) -> None:
        self._store = store
        self._forgets = forgets
        self._last: str | None = None

    async def start(self, digest: str, source: BootstrapSource = "configured") -> bool:
        result = await self._store.allow_bootstrap_key(key(digest), source, self._last)
        if result.accepted and not self._forgets:
            self._last = digest
        return result.accepted


async def valid(store: Store) -> set[str]:
    return {each.digest for each in await store.keys() if each.revoked_at is None}


async def test_a_changed_key_replaces_the_one_before(store: Store) -> None:
    server = Server(store)
    await store.add_key(key("created", name="mine"))
    assert await server.start("old")
    assert await server.start("old")
    assert await valid(store) == {"old", "created"}
    assert await server.start("new")
    assert await valid(store) == {"new", "created"}
    assert await server.start("new")
    assert await valid(store) == {"new", "created"}


async def test_a_changed_key_replaces_the_one_before_also_for_servers_without_a_memory(store: Store) -> None:
    for digest in ("old", "old", "new", "new"):
        assert await Server(store, forgets=True).start(digest)
    assert await valid(store) == {"new"}


async def test_the_generated_keys_of_several_servers_live_side_by_side(store: Store) -> None:
    a, b, configured = Server(store), Server(store), Server(store)
    for _ in range(2):
        await a.start("of a", "generated")
        await b.start("of b", "generated")
        await configured.start("configured")
    assert await valid(store) == {"of a", "of b", "configured"}
    await a.start("replaced file of a", "generated")
    assert await valid(store) == {"replaced file of a", "of b", "configured"}
    await b.start("configured")
    assert await valid(store) == {"replaced file of a", "configured"}


@pytest.mark.parametrize("forgets", [False, True])
async def test_a_rolling_change_ends_with_the_new_key_alone(store: Store, forgets: bool) -> None:
    a, b = Server(store, forgets=forgets), Server(store, forgets=forgets)
    await a.start("old")
    await b.start("old")
    await a.start("new")
    assert "new" in await valid(store)
    await b.start("old")  # it crashed before its turn came
    assert "new" in await valid(store), "a server with the old key does not revoke the new one"
    await a.start("new")
    await b.start("new")
    assert await valid(store) == {"new"}


async def test_a_server_that_was_not_reconfigured_brings_no_replaced_key_back(store: Store) -> None:
    a, b = Server(store), Server(store)
    await a.start("old")
    await b.start("old")
    await a.start("new")
    assert not await b.start("old")
    assert await valid(store) == {"new"}


@pytest.mark.parametrize("forgets", [False, True])
async def test_an_old_key_that_is_set_again_is_valid_again(store: Store, forgets: bool) -> None:
    server = Server(store, forgets=forgets)
    for digest in ("old", "new", "old"):
        assert await server.start(digest)
    assert "old" in await valid(store)
    if not forgets:
        assert await valid(store) == {"old"}
    await server.start("third")
    assert await valid(store) == {"third"}


async def test_a_key_that_was_revoked_by_hand_stays_revoked(store: Store) -> None:
    server = Server(store)
    await server.start("old")
    (old,) = await store.keys()
    await store.revoke_key(old.id)
    assert not await server.start("old")
    assert not await Server(store).start("old")
    assert await valid(store) == set()
    await server.start("new")
    assert not await server.start("old")
    assert await valid(store) == {"new"}, "nor does it lock out the key that is valid"


async def test_a_created_key_that_a_server_is_given_is_never_revoked_by_a_change(store: Store) -> None:
    await store.add_key(key("created", name="mine"))
    server = Server(store)
    assert await server.start("created")
    assert await server.start("other")
    assert await valid(store) == {"created", "other"}


@pytest.mark.parametrize("source", ["configured", "generated"])
async def test_a_key_of_an_earlier_version_is_replaced_like_others(
    store: Store, source: Literal["configured", "generated"]
) -> None:
    await store.add_key(key("old"))
    server = Server(store)
    await server.start("old", source)
    await server.start("new", source)
    assert await valid(store) == {"new"}


async def test_sessions_of_a_replaced_key_get_nothing_more(store: Store) -> None:
    server = Server(store)
    await server.start("old")
    (old,) = await store.keys()
    await store.register(worker("w_2", key=old.id), MINUTE)
    await server.start("new")
    await store.submit([one_shot(store.now())])
    assert (await store.claim([SlotRequest("w_2", "", 1)], 0)).claims == []


@pytest.mark.parametrize("name", ["admin", "mine"])
async def test_a_key_of_another_role_replaces_no_admin_key(store: Store, name: str) -> None:
    server = Server(store)
    await server.start("old")
    await store.add_key(msgspec.structs.replace(key("of another role", name=name), role="worker"))
    before = await valid(store)
    for each in (server, Server(store)):
        with pytest.raises(Conflict, match="role worker"):
            await each.start("of another role")
        assert await valid(store) == before
