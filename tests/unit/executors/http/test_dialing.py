"""Connections of tenants: to which addresses they are opened, and that tenants do not share them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.refused_addresses import LOOPBACK, METADATA, OTHERS, PRIVATE
from tests.support.raw_target import RawRequest, listening, response
from tests.unit.executing import RecordedAttempt
from tests.unit.executors.http.test_connection import EverythingIsHere, TlsTarget, body, failure, target
from timeball.domain.network.address_lists import NO_LISTS, AddressLists
from timeball.domain.network.address_policy import AddressPolicy
from timeball.domain.run.lifecycle import INVALID, Outcome
from timeball.domain.task.task import Http
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.executors.http import dialing
from timeball.executors.http.executor import HttpExecutor
from timeball.lookups import Lookups, ResolvedAddress

HERE = AddressLists(allow=("127.0.0.0/8",))
WRITTEN = [
    each
    for text in (LOOPBACK, PRIVATE, METADATA, OTHERS)
    for each in text.split()
    if not each.endswith(".") and "%" not in each and "localhost" not in each.lower()
]


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


async def call(http: HttpExecutor, url: str, tenant: str, lists: AddressLists = NO_LISTS, **fields: Any) -> Outcome:
    attempt = RecordedAttempt(Http(url=url, method="GET", **fields), tenant=tenant, addresses=lists)
    return await asyncio.wait_for(http.execute(attempt), 20)


@pytest.mark.parametrize("guarded", [True, False])
async def test_addresses_in_any_notation_are_refused_before_a_connection(
    http: HttpExecutor, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the guard switched off, the same calls reach the function that connects."""
    asked: list[list[Any]] = []

    async def connect(infos: list[Any], **_: Any) -> socket.socket:
        asked.append(infos)
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(dialing.aiohappyeyeballs, "start_connection", connect)
    if not guarded:
        monkeypatch.setattr(AddressPolicy, "refusal", lambda policy, address: None)
    kinds = [failure(await call(http, f"http://{host}:9/", "acme")).kind for host in WRITTEN]
    if guarded:
        assert asked == []
        assert kinds.count(INVALID) >= 60
    else:
        assert len(asked) >= 60
        assert INVALID not in kinds


async def test_tenants_do_not_share_connections(http: HttpExecutor) -> None:
    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"%d" % request.connection))

    async with listening(respond) as url:
        tenants = ("acme", "beta", DEFAULT_TENANT)
        first = [body(await call(http, url, tenant, HERE)) for tenant in tenants]
        again = [body(await call(http, url, tenant, HERE)) for tenant in tenants]
        assert first == again == ["1", "2", "3"]
        assert body(await call(http, url, DEFAULT_TENANT)) == "4"


async def test_changed_lists_hold_for_the_next_call_although_a_connection_is_idle(http: HttpExecutor) -> None:
    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"%d" % request.connection))

    async with listening(respond) as url:
        assert body(await call(http, url, "acme", HERE)) == "1"
        assert failure(await call(http, url, "acme")).kind == INVALID
        denied = failure(await call(http, url, DEFAULT_TENANT, AddressLists(deny=("127.0.0.1",))))
        assert (denied.kind, denied.message) == (
            INVALID,
            f"GET {url}: the address 127.0.0.1 is refused: the deny list of the tenant (127.0.0.1)",
        )
        assert body(await call(http, url, DEFAULT_TENANT)) == "2"


async def test_the_checked_address_gets_the_name_in_host_and_sni(tmp_path: Path) -> None:
    tls = TlsTarget(tmp_path)
    http = HttpExecutor(EverythingIsHere(), tls.trust)
    async with target(tls.serve, tls=tls.context) as port:
        assert body(await call(http, f"https://localhost:{port}/", "acme", HERE)) == f"localhost:{port}"
        assert tls.names == ["localhost"]
        assert failure(await call(http, f"https://localhost:{port}/", "acme")).kind == INVALID
        assert tls.names == ["localhost"]
    await http.close()


async def test_an_allowed_target_may_not_redirect_to_an_address_that_is_refused(http: HttpExecutor) -> None:
    paths: list[str] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        paths.append(request.path)
        writer.write(response(b"", status="302 Found", headers=("Location: http://127.0.0.2:9/", "Connection: close")))

    async with listening(respond) as url:
        refused = failure(await call(http, url, "acme", AddressLists(allow=("127.0.0.1",))))
    assert (refused.kind, paths) == (INVALID, ["/"])
    assert refused.message == f"GET {url}: the address 127.0.0.2 is refused: loopback (127.0.0.0/8)"


async def test_only_the_default_tenant_and_the_log_see_the_address_of_a_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class InternalNames(Lookups):
        async def addresses(self, host: str, family: int = socket.AF_UNSPEC) -> list[ResolvedAddress]:
            return [ResolvedAddress(socket.AF_INET, socket.IPPROTO_TCP, "10.1.2.3")]

    http = HttpExecutor(InternalNames())
    deny = AddressLists(deny=("10.0.0.0/8",))
    shown = failure(await call(http, "http://db.internal/", DEFAULT_TENANT, deny)).message
    where = "GET http://db.internal/"
    assert shown == f"{where}: the address 10.1.2.3 of db.internal is refused: the deny list of the tenant (10.0.0.0/8)"
    with caplog.at_level(logging.WARNING, "timeball.http"):
        for _ in range(3):
            hidden = failure(await call(http, "http://db.internal/", "acme")).message
            assert hidden == f"{where}: an address of db.internal is refused: private (10.0.0.0/8)"
    assert caplog.messages[1:] == [
        "refused an HTTP job of the tenant acme: the address 10.1.2.3 of db.internal is refused: private (10.0.0.0/8)"
    ]
    await http.close()
