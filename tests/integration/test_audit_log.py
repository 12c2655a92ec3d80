"""The audit log over HTTP, on both stores: lists, exports, the clients, and `timeball audit-log`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support.api import ADMIN, OTHER, Api, serving
from tests.support.event_streams import over_http
from tests.support.migrated import (
    PROTECT_AUDIT_LOG,
    UNPROTECT_AUDIT_LOG,
    empty_postgres,
    sqlite_store,
    tamper_with_postgres,
)
from timeball import AsyncClient, Client, system
from timeball.cli.root import timeball
from timeball.domain.audit_log.document import AuditEntryView, entry_of_view, view_of
from timeball.domain.audit_log.entry import AuditEntry, with_hash
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore

HOURLY: Final = {"type": "interval", "expression": "1h"}
JOB: Final = {"task": {"kind": "shell", "command": "true"}, "schedule": HOURLY}


@dataclass
class Served:
    api: Api
    url: str
    plant: Callable[[str], Awaitable[None]]
    """Runs a statement in the database, past the triggers that protect the audit log."""

    async def send(self, method: str, path: str, body: Any = None, *, key: str = ADMIN) -> Any:
        answer = await self.api(method, path, key, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def cli(self, *arguments: str, key: str = ADMIN) -> Result:
        given = ["audit-log", *arguments, "--url", self.url, "--token", key]
        return await asyncio.to_thread(CliRunner().invoke, timeball, given, prog_name="timeball")

    async def verified(self, *arguments: str, key: str = ADMIN) -> dict[str, Any]:
        """Verify, and return the report."""
        result = await self.cli("verify", "-o", "json", *arguments, key=key)
        report: dict[str, Any] = json.loads(result.stdout)
        assert result.exit_code == (1 if report["problems"] else 0), result.output
        return report


@pytest.fixture(params=["sqlite", "postgres"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    store: Store
    path = tmp_path / "timeball.db"
    if request.param == "sqlite":
        store = sqlite_store(path)
    else:
        dsn = request.getfixturevalue("migrated_dsn")
        await empty_postgres(dsn)
        store = PostgresStore(dsn, monotonic=system.monotonic, min_connections=1)

    async def plant(statement: str) -> None:
        if request.param == "postgres":
            await tamper_with_postgres(dsn, f"{UNPROTECT_AUDIT_LOG}; {statement}; {PROTECT_AUDIT_LOG}")
            return
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.execute("DROP TRIGGER IF EXISTS audit_log_without_updates")
            connection.execute("DROP TRIGGER IF EXISTS audit_log_without_deletes")
            connection.execute(statement)
            connection.commit()

    async with serving(store) as api, over_http(api) as http:
        yield Served(api, http.url, plant)


async def some_entries(served: Served, count: int, key: str = ADMIN) -> list[str]:
    return [
        (await served.send("POST", "/v1/jobs", {**JOB, "name": f"job {at}"}, key=key))["jobId"] for at in range(count)
    ]


def seqs(page: Any) -> list[int]:
    return [each["seq"] for each in page["items"]]


async def test_the_chains_verify_after_concurrent_use_by_two_tenants(served: Served) -> None:
    async def use(key: str, at: int) -> None:
        job = (await served.send("POST", "/v1/jobs", {**JOB, "name": f"job {at}"}, key=key))["jobId"]
        await served.send("PATCH", f"/v1/jobs/{job}", {"description": "changed"}, key=key)
        await served.send("POST", f"/v1/jobs/{job}/pause", {"reason": "x"}, key=key)
        await served.send("PUT", f"/v1/tasks/task-{at}", {"kind": "shell", "command": "true"}, key=key)
        await served.send("POST", "/v1/users", {"userId": f"u{at}", "role": "viewer"}, key=key)
        await served.send("POST", "/v1/api-keys", {"role": "viewer", "userId": f"u{at}"}, key=key)
        await served.send("DELETE", f"/v1/jobs/{job}", key=key)

    await asyncio.gather(*(use(key, at) for at in range(8) for key in (ADMIN, OTHER)))
    await served.send("POST", "/v1/tenants", {"tenantId": "third"})
    for key, chain in ((ADMIN, "default"), (OTHER, "other")):
        found = await served.verified(key=key)
        assert (found["chain"], found["entries"], found["problems"]) == (chain, 8 * 7, [])
    assert (await served.verified("--scope", "system"))["entries"] == 1
    shown = await served.cli("verify", key=OTHER)
    assert shown.stdout.startswith("56 entries of the tenant other are as they were written.\n56:")


async def test_a_planted_edit_and_a_planted_deletion_are_found(served: Served, tmp_path: Path) -> None:
    await some_entries(served, 6)
    await some_entries(served, 2, OTHER)
    file = str(tmp_path / "audit.ndjson")
    assert (await served.cli("export", "--file", file)).exit_code == 0
    await served.plant("UPDATE audit_log SET actor_name = 'mallory' WHERE chain = 'default' AND seq = 3")
    edited = await served.cli("verify")
    assert (edited.exit_code, edited.stdout) == (1, "")
    assert edited.stderr == "The audit log of the tenant default: entry 3 was edited.\n"
    await served.plant("DELETE FROM audit_log WHERE chain = 'default' AND seq = 5")
    found = await served.verified()
    assert [(each["kind"], each["seq"]) for each in found["problems"]] == [("edited", 3), ("deleted", 5)]
    await served.plant("DELETE FROM audit_log WHERE chain = 'default' AND seq = 6")
    assert [(each["kind"], each["seq"], each["last"]) for each in (await served.verified())["problems"]] == [
        ("edited", 3, 3),
        ("truncated", 5, 6),
    ]
    assert (await served.verified(key=OTHER))["problems"] == []
    assert (await served.verified(file))["entries"] == 6


@pytest.mark.parametrize(
    "change",
    [
        "new_values = 'no json'",
        "new_values = '[1]'",
        "new_values = replace(new_values, ',', ' , ')",
        "new_values = NULL",
        "old_values = '{}'",
        "at = -5",
        "at = 9000000000000000000",
        "address = '192.0.2.66'",
        "hash = 'abc'",
    ],
)
async def test_every_edit_is_found_and_the_rest_can_be_read(served: Served, change: str) -> None:
    await some_entries(served, 3)
    await served.plant(f"UPDATE audit_log SET {change} WHERE chain = 'default' AND seq = 2")
    assert [(each["kind"], each["seq"]) for each in (await served.verified())["problems"]] == [("edited", 2)]
    assert seqs(await served.send("GET", "/v1/audit-log")) == [3, 2, 1]


async def test_an_entry_that_was_added_is_found(served: Served) -> None:
    await some_entries(served, 2)
    columns = (
        "actor_kind, actor_id, actor_name, user_id, address, action, resource, resource_id, old_values, new_values"
    )
    await served.plant(
        f"INSERT INTO audit_log (chain, seq, at, {columns}, previous, hash)"
        f" SELECT chain, 3, at, {columns}, hash, hash FROM audit_log WHERE chain = 'default' AND seq = 2"
    )
    kinds = [each["kind"] for each in (await served.verified())["problems"]]
    assert "added" in kinds


async def test_a_chain_that_was_written_again_is_found_by_an_anchor(served: Served) -> None:
    await some_entries(served, 3)
    anchor = (await served.verified())["anchor"]
    assert (await served.verified("--anchor", anchor))["problems"] == []
    previous = ""
    for entry in await served.api.server.context.store.audit_entries("default", 0, 10):
        made = with_hash(AuditEntry(**{**fields(entry), "address": "203.0.113.9", "previous": previous}))
        previous = made.hash
        await served.plant(
            f"UPDATE audit_log SET address = '203.0.113.9', previous = '{made.previous}', hash = '{made.hash}'"
            f" WHERE chain = 'default' AND seq = {made.seq}"
        )
    await served.plant(f"UPDATE audit_heads SET hash = '{previous}' WHERE chain = 'default'")
    assert (await served.verified())["problems"] == []
    assert [each["kind"] for each in (await served.verified("--anchor", anchor))["problems"]] == ["rewritten"]
    assert (await served.cli("verify", "--anchor", "12:abc")).exit_code == 2


def fields(entry: AuditEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


async def test_a_changed_or_incomplete_export_does_not_verify(served: Served, tmp_path: Path) -> None:
    await some_entries(served, 4)
    lines = (await served.cli("export")).stdout_bytes.splitlines(keepends=True)
    assert json.loads(lines[0])["head"]["seq"] == 4
    file = tmp_path / "audit.ndjson"

    async def problems(*changed: bytes) -> list[tuple[str, int]]:
        file.write_bytes(b"".join(changed))
        return [(each["kind"], each["seq"]) for each in (await served.verified(str(file)))["problems"]]

    assert await problems(*lines) == []
    assert await problems(*lines[:4]) == [("truncated", 4)]
    assert await problems(*lines[:2], *lines[3:]) == [("deleted", 2)]
    assert await problems(lines[0], lines[1].replace(b"job 0", b"job 9"), *lines[2:]) == [("edited", 1)]
    for nonsense in (b"", b"no json\n", b'{"items": []}\n', lines[1], lines[0] + b"[1]\n"):
        file.write_bytes(nonsense)
        assert (await served.cli("verify", str(file))).exit_code == 2


async def test_entries_are_listed_by_actor_action_resource_and_time(served: Served) -> None:
    first, second = await some_entries(served, 2)
    await served.send("POST", f"/v1/jobs/{first}/pause", {"reason": "move"})
    await served.send("POST", f"/v1/jobs/{second}/pause")
    listed = await served.send("GET", "/v1/audit-log")
    assert (seqs(listed), listed["nextCursor"]) == ([4, 3, 2, 1], None)
    paused = listed["items"][1]
    assert paused["actor"]["kind"] == "key"
    assert paused["actor"]["name"] == "admin"
    assert (paused["action"], paused["resource"], paused["resourceId"]) == ("job.pause", "job", first)
    assert (paused["before"], paused["after"]) == ({"state": "active"}, {"pauseReason": "move", "state": "paused"})
    page = await served.send("GET", "/v1/audit-log?limit=3")
    assert (seqs(page), page["nextCursor"]) == ([4, 3, 2], "2")
    assert seqs(await served.send("GET", "/v1/audit-log?limit=3&cursor=2")) == [1]
    assert seqs(await served.send("GET", "/v1/audit-log?action=job.pause")) == [4, 3]
    assert seqs(await served.send("GET", "/v1/audit-log?action=job.*&actor=admin")) == [4, 3, 2, 1]
    assert seqs(await served.send("GET", f"/v1/audit-log?resource={first}")) == [3, 1]
    assert seqs(await served.send("GET", f"/v1/audit-log?from={paused['at']}")) == [4, 3]
    assert seqs(await served.send("GET", f"/v1/audit-log?to={paused['at']}")) == [2, 1]
    assert seqs(await served.send("GET", "/v1/audit-log?actor=mallory")) == []
    for wrong in ("cursor=x", "cursor=-1", "from=x", "scope=all", "limit=0", "cursor=" + "9" * 19, "other=1"):
        answer = await served.api("GET", f"/v1/audit-log?{wrong}")
        assert answer.status_code == 422, wrong
        assert answer.json()["errors"][0]["pointer"].startswith("/query/")


async def test_only_the_role_system_sees_the_chain_of_the_system(served: Served) -> None:
    await served.send("POST", "/v1/tenants", {"tenantId": "third"})
    [entry] = (await served.send("GET", "/v1/audit-log?scope=system"))["items"]
    assert (entry["action"], entry["resourceId"]) == ("tenant.create", "third")
    for path in ("/v1/audit-log?scope=system", "/v1/audit-log/export?scope=system"):
        assert (await served.api("GET", path, OTHER)).status_code == 403
    assert (await served.send("GET", "/v1/audit-log", key=OTHER))["items"] == []


async def test_secrets_are_not_in_the_audit_log(served: Served) -> None:
    secret = "hunter2hunter2"
    task = {
        "kind": "http",
        "url": f"https://user:{secret}@example.org/?token={secret}",
        "headers": {"Authorization": f"Bearer {secret}", "X-Api-Key": secret},
        "body": f'{{"password": "{secret}"}}',
    }
    await served.send("PUT", "/v1/tasks/t", task)
    argv = ["psql", "--password", secret, f"--token={secret}"]
    for command in (argv, f"psql --password {secret}", f"curl -H 'Authorization: Bearer {secret}' x"):
        job = {"task": {"kind": "shell", "command": command}, "schedule": HOURLY, "parameters": {"dbPassword": secret}}
        await served.send("POST", "/v1/jobs", job)
    made = await served.send("POST", "/v1/api-keys", {"role": "viewer"})
    rotated = await served.send("POST", f"/v1/api-keys/{made['keyId']}/rotate", {"overlap": "1h"})
    text = (await served.cli("export")).stdout
    for each in (secret, made["key"], rotated["key"], ADMIN):
        assert each not in text
    assert made["keyId"] in text


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_both_clients_list_and_export(served: Served, kind: type) -> None:
    await some_entries(served, 3)
    if kind is Client:

        def read() -> tuple[list[int], list[bytes]]:
            with Client(served.url, ADMIN) as client:
                found = client.audit_log(action="job.*", actor="admin")
                return [each.seq for each in found], list(client.export_audit_log())

        listed, lines = await asyncio.to_thread(read)
    else:
        async with AsyncClient(served.url, ADMIN) as client:
            listed = [each.seq async for each in client.audit_log(action="job.*", actor="admin")]
            lines = [line async for line in client.export_audit_log()]
    assert listed == [3, 2, 1]
    assert [json.loads(line).get("seq") for line in lines] == [None, 1, 2, 3]
    assert all(line.endswith(b"\n") for line in lines)


async def test_the_list_of_the_command_line(served: Served) -> None:
    [job] = await some_entries(served, 1)
    header, line = (await served.cli("list", "--action", "job.create", "--from", "1h")).stdout.splitlines()
    assert header.split("\t") == ["AT", "ACTOR", "FROM", "ACTION", "RESOURCE", "CHANGED", "ENTRY"]
    assert line.split("\t")[1:5] == ["admin", "127.0.0.1", "job.create", job]
    assert json.loads((await served.cli("list", "-o", "json")).stdout)["items"][0]["resourceId"] == job


async def test_exports_at_once_are_limited(served: Served) -> None:
    exports = served.api.server.context.audit_exports
    with contextlib.ExitStack() as stack:
        credential = (await served.send("GET", "/v1/me"))["keyId"]
        stack.enter_context(exports.counted(credential))
        assert (await served.api("GET", "/v1/audit-log/export")).status_code == 200
        stack.enter_context(exports.counted(credential))
        refused = await served.api("GET", "/v1/audit-log/export")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        for other in range(2):
            stack.enter_context(exports.counted(f"k_{other}"))
        assert (await served.api("GET", "/v1/audit-log/export", OTHER)).status_code == 503
    assert (await served.api("GET", "/v1/audit-log/export")).status_code == 200


async def test_an_export_that_a_stopping_server_breaks_off_is_an_error_and_no_deletion(tmp_path: Path) -> None:
    stopping = False
    async with (
        serving(sqlite_store(tmp_path / "timeball.db"), stopping=lambda: stopping) as api,
        over_http(api) as http,
    ):
        served = Served(api, http.url, lambda statement: asyncio.sleep(0))
        await some_entries(served, 3)
        stopping = True
        result = await served.cli("verify")
        assert (result.exit_code, result.stdout) == (3, "")


async def test_an_entry_survives_its_form_in_json(served: Served) -> None:
    strange = {"large": 2**62, "float": 1e300, "text": "\u2028\U0001f600\t", "none": None, "deep": [{"a": [1.5]}]}
    await served.send("POST", "/v1/jobs", {**JOB, "parameters": strange})
    [entry] = await served.api.server.context.store.audit_entries("default", 0, 10)
    document = json.loads(msgspec.json.encode(view_of(entry)))
    assert entry_of_view(msgspec.convert(document, AuditEntryView), "default") == entry


@pytest.mark.parametrize("trusted", [True, False])
async def test_behind_a_trusted_proxy_the_address_is_that_of_its_client(tmp_path: Path, trusted: bool) -> None:
    proxies = ["127.0.0.0/8"] if trusted else ["10.0.0.0/8"]
    headers = {"authorization": f"Bearer {ADMIN}", "x-forwarded-for": "203.0.113.9, 198.51.100.7"}
    store = sqlite_store(tmp_path / "timeball.db")
    async with serving(store, trusted_proxies=proxies) as api, over_http(api) as http:
        for _ in range(2):  # the second one meets the cache of heads
            answer = await http.client.post(f"{http.url}/v1/jobs", headers=headers, json=JOB)
            assert answer.status_code == 201, answer.text
        for tenant in ("acme", "beta"):
            sent = await http.client.post(f"{http.url}/v1/tenants", headers=headers, json={"tenantId": tenant})
            assert sent.status_code == 201, sent.text
        assert (await http.client.delete(f"{http.url}/v1/tenants/acme", headers=headers)).status_code == 202
        entries = [each for chain in ("default", "*") for each in await store.audit_entries(chain, 0, 100)]
        assert len(entries) >= 5
        assert {each.address for each in entries} == {"198.51.100.7" if trusted else "127.0.0.1"}
