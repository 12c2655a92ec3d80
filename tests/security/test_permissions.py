"""Every route with every kind of credential answers what `permissions.csv` says."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.security.requests import request_of
from tests.security.scene import HOST, JOB, MARK, NEVER, SESSIONS, Scene, a_scene
from tests.support.event_streams import EventReader
from timeball.api.app import ROUTES

with Path(__file__).with_name("permissions.csv").open() as file:
    TABLE: Final = {f"{line['method']} {line['path']}": line for line in csv.DictReader(file)}
CREDENTIALS: Final = tuple(next(iter(TABLE.values())))[3:]
EMPTY: Final = "200 empty"
COUNTS: Final = {
    *("count", "matched", "total", "fires", "runs", "succeeded", "failed", "dead", "onTime", "jobs", "workers"),
    *("scheduled", "active", "queued", "running", "due"),
}
"""Names of numbers that count what belongs to a tenant."""
SIGNED_OUT: Final = ("POST /v1/sign-in", "POST /v1/sign-out")
"""Routes that end the web session of their request."""


def test_the_file_has_every_route_with_its_permission() -> None:
    stated = {route: line["permission"] for route, line in TABLE.items()}
    assert stated == {f"{route.method} {route.path}": route.permission.value for route in ROUTES}


async def wrong_lines(scene: Scene, routes: Iterable[str]) -> list[str]:
    """Send the requests of these routes with every credential. Return what is not as the file says."""
    wrong = []
    for route, who in sorted(((route, who) for route in routes for who in CREDENTIALS), key=_place):
        stated = TABLE[route][who]
        found = await answer(scene, route, who, succeeds=stated.startswith("2"))
        if found != stated:
            wrong.append(f"{route} with {who}: {found}, and not {stated}")
    return wrong


def _place(line: tuple[str, str]) -> int:
    """What has to be empty is asked for before the other tenant has anything."""
    route, who = line
    return 2 if TABLE[route][who] != EMPTY else 1 if route == "GET /v1/events" else 0


async def answer(scene: Scene, route: str, who: str, *, succeeds: bool) -> str:
    """Return the status of the answer. For a successful request of the other tenant, it says whether the answer is
    empty, if the file asks for that."""
    method = route.partition(" ")[0]
    path, body = await request_of(scene, route, who, succeeds)
    if route == "GET /v1/events":
        return await _streamed(scene, who)
    sent = await scene.send(who, method, path, body)
    if route in SIGNED_OUT and who in SESSIONS:
        scene.credentials[who] = await SESSIONS[who](scene)
    if TABLE[route][who] != EMPTY or sent.status_code != 200:
        return str(sent.status_code)
    return EMPTY if is_empty(scene, sent.text) else f"200 with {sent.text[:300]}"


def is_empty(scene: Scene, text: str) -> bool:
    """True if an answer contains nothing of the default tenant, no item, and counts nothing."""
    mine = {each for name, each in scene.ids.items() if "other" not in name and not name.startswith("span")}
    first, *others = text.splitlines()  # an export has a head, and a line for each item
    if others:
        return False
    document = json.loads(first)
    items = document.get("items", []) if isinstance(document, dict) else document
    rows = items if isinstance(items, list) else []
    foreign = [each for each in rows if each.get("name") != "admin" and "from" not in each]
    return not any(each in text for each in mine | {MARK}) and not counted(document) and not foreign


def counted(document: Any) -> int:
    """Return the sum of all counts in an answer."""
    if isinstance(document, list):
        return sum(map(counted, document))
    if not isinstance(document, dict):
        return 0
    here = sum(value for name, value in document.items() if name in COUNTS and isinstance(value, int))
    return here + sum(map(counted, document.values()))


async def _streamed(scene: Scene, who: str) -> str:
    """Open the event stream, and change jobs of both tenants. Return whether the first one
    in the stream is that of the default tenant."""
    headers = {"host": HOST, **scene.credentials[who]}
    async with scene.http.client.stream("GET", f"{scene.http.url}/v1/events", headers=headers) as stream:
        if stream.status_code != 200:
            return str(stream.status_code)
        reader = await EventReader(stream).opened()
        changed = {}
        for owner in ("system", "other_admin"):
            made = await scene.send(owner, "POST", "/v1/jobs", {**JOB, "schedule": NEVER})
            changed[made.json()["jobId"]] = owner
        while True:
            text = json.dumps((await reader.next()).event)
            for job_id, owner in changed.items():
                if job_id in text:
                    return "200" if owner == "system" else EMPTY


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[Scene]:
    async with asyncio.timeout(100), a_scene(folder) as scene:
        yield scene


async def test_every_route_answers_every_credential_as_the_file_says(tmp_path: Path) -> None:
    """I24."""
    async with _opened(tmp_path) as scene:
        assert await wrong_lines(scene, TABLE) == []


@pytest.mark.parametrize("text", ['{"items":[{"name":"x"}]}', '{"count":1}', f'{{"a":"{MARK}"}}'])
def test_an_answer_that_is_not_empty_is_recognized(text: str) -> None:
    assert not is_empty(Scene(http=None, provider=None), text)  # type: ignore[arg-type]
