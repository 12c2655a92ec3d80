"""Which headers and bodies are sent on when a target redirects an HTTP job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.support.http_target import serving
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Outcome, Succeeded
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor

CREDENTIALS = {
    "Authorization": "Bearer s3cret",
    "Cookie": "id=s3cret",
    "X-Api-Key": "s3cret",
    "X-Auth-Token": "s3cret",
    "Private-Token": "s3cret",
    "X-Hub-Signature-256": "s3cret",
    "X-Client-Secret": "s3cret",
    "X-Amz-Security-Token": "s3cret",
    "X-Custom": "Basic s3cret",
}
HARMLESS = {"Accept": "text/plain", "X-Request-Source": "timeball", "Idempotency-Key": "mine"}


class Pair:
    """Two targets: the first sends everything to the second."""

    def __init__(self) -> None:
        self.near = self.far = ""
        self.status = 302
        self.heard: list[tuple[str, Mapping[str, str], bytes]] = []

    async def redirect(self, request: web.Request) -> web.Response:
        there = self.far if request.path == "/away" else self.near
        return web.Response(status=self.status, headers={"Location": f"{there}end"})

    async def answer(self, request: web.Request) -> web.Response:
        if request.path in ("/away", "/near"):
            return await self.redirect(request)
        body = await request.read()
        self.heard.append((request.method, {name.lower(): value for name, value in request.headers.items()}, body))
        return web.Response(text="end")


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    async with AsyncExitStack() as stack:
        pair.near = await stack.enter_async_context(serving(pair.answer))
        pair.far = await stack.enter_async_context(serving(pair.answer))
        yield pair


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


async def call(http: HttpExecutor, url: str, **fields: Any) -> Outcome:
    return await http.execute(RecordedAttempt(Http(url=url, **fields), days=3))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin_takes_no_credentials_along(
    pair: Pair, http: HttpExecutor, status: int
) -> None:
    pair.status = status
    headers = {**CREDENTIALS, **HARMLESS, "Host": "near.example"}
    assert isinstance(await call(http, f"{pair.near}away", method="GET", headers=headers), Succeeded)
    ((_, heard, _),) = pair.heard
    assert "s3cret" not in "".join(heard.values())
    assert {name: heard[name.lower()] for name in HARMLESS} == HARMLESS
    assert heard["host"] in pair.far


async def test_a_redirect_within_an_origin_takes_everything_along(pair: Pair, http: HttpExecutor) -> None:
    pair.status = 307
    assert isinstance(await call(http, f"{pair.near}near", headers=CREDENTIALS), Succeeded)
    ((method, heard, body),) = pair.heard
    assert (method, body) == ("POST", b'{"days":3}')
    assert {name: heard[name.lower()] for name in CREDENTIALS} == CREDENTIALS


async def test_credentials_in_an_address_stay_with_its_origin(pair: Pair, http: HttpExecutor) -> None:
    with_user = pair.near.replace("http://", "http://user:s3cret@")
    assert isinstance(await call(http, f"{with_user}away", method="GET"), Succeeded)
    ((_, heard, _),) = pair.heard
    assert "authorization" not in heard


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_goes_to_no_origin_that_the_job_does_not_name(pair: Pair, http: HttpExecutor, status: int) -> None:
    pair.status = status
    ended = await call(http, f"{pair.near}away", body=msgspec.Raw(b'"s3cret"'))
    assert isinstance(ended, Failed)
    assert "another origin" in ended.failure.message
    assert ended.failure.status == status
    assert pair.heard == []


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirected_post_becomes_a_get_without_its_body(pair: Pair, http: HttpExecutor, status: int) -> None:
    pair.status = status
    ended = await call(http, f"{pair.near}away", body=msgspec.Raw(b'"s3cret"'))
    assert isinstance(ended, Succeeded)
    ((method, heard, body),) = pair.heard
    assert (method, body, heard.get("content-type")) == ("GET", b"", None)


async def test_no_header_of_a_job_passes_for_the_identity_of_its_run(pair: Pair, http: HttpExecutor) -> None:
    seen: list[list[str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append([value for name, value in request.headers.items() if name.lower() == "x-timeball-run-id"])
        return web.Response()

    async with serving(answer) as url:
        await call(http, url, headers={"x-timeball-run-id": "r_forged"})
    assert seen == [[RecordedAttempt(Http(url=url)).run_id]]
