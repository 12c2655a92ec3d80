"""I30: after any accepted input every read and list of it works; one row that cannot be shown costs no other row."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.api import Api, running_api
from tests.support.thorough import THOROUGH
from timeball.api import views
from timeball.api.app import ROUTES
from timeball.client import exchange
from timeball.client.requests import backfills as backfill_requests
from timeball.client.requests import jobs as job_requests
from timeball.client.requests import registry as registry_requests
from timeball.client.requests import runs as run_requests
from timeball.client.requests import workers as worker_requests
from timeball.client.requests import workflows as workflow_requests
from timeball.domain import instant
from timeball.domain.instant import MAX, SECOND, render, to_datetime
from timeball.manifests.export import export

SHELL = {"kind": "shell", "command": "true"}
EDGES = [
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00.000001Z",
    "2026-11-18T00:00:00+14:00",
    "2030-02-28T23:59:59.999999-12:00",
    "9998-12-31T23:59:59.999999Z",
    "9999-12-29T00:00:00Z",
    "9999-12-30T23:59:59.999999Z",
    "9999-12-31T00:00:00Z",
    "9999-12-31T13:00:00+14:00",
    "9999-12-30T12:00:00-12:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T00:00:00-00:01",
]
LENGTHS = [
    "0s",
    "1ms",
    "1s",
    "59s",
    "1h",
    "366d",
    "36500d",
    "36600d",
    0,
    1,
    10**9,
    3_162_240_000,
    10**12,
    "999999999999d",
]
TEXTS = ["", "a", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\U0010ffff", "é", "\u2028", "\x7f\x1b[2J", "x" * 300]
ZONES = ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Africa/Monrovia", "Pacific/Apia"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder: Path = tmp_path_factory.mktemp("api")
    async with running_api(folder) as running:
        yield running


def edges() -> st.SearchStrategy[str]:
    return st.sampled_from(EDGES)


def schedules() -> st.SearchStrategy[dict[str, Any]]:
    crons = ["* * * * * *", "0 0 29 2 *", "59 59 23 31 12 *", "0 0 31 12 *", "H H * * *", "30 2 * * *"]
    return st.one_of(
        st.just({"type": "immediate"}),
        edges().map(lambda at: {"type": "date", "expression": at}),
        st.sampled_from(LENGTHS).map(lambda length: {"type": "interval", "expression": length}),
        st.builds(
            lambda text, zone: {"type": "cron", "expression": text, "timezone": zone},
            st.sampled_from(crons),
            st.sampled_from(ZONES),
        ),
        st.builds(
            lambda since, until, zone: {"type": "window", "from": since, "to": until, "timezone": zone},
            st.sampled_from(["00:00", "23:59:59", "12:00"]),
            st.sampled_from(["00:00:01", "24:00", "23:59"]),
            st.sampled_from(ZONES),
        ),
    )


def values() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from([None, True, 0, -1, 2**63, 10**40, 1e308, -0.0, 5e-324, *TEXTS])
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TEXTS), inner)
    )


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    body: dict[str, Any] = {"task": draw(st.sampled_from([SHELL, {"kind": "http", "url": "http://127.0.0.1:1/"}]))}
    body["schedule"] = draw(schedules())
    optional: dict[str, st.SearchStrategy[Any]] = {
        "name": st.sampled_from(TEXTS),
        "description": st.sampled_from(TEXTS),
        "tags": st.lists(st.sampled_from(TEXTS), max_size=2),
        "userId": st.sampled_from(TEXTS),
        "orderingKey": st.sampled_from(TEXTS),
        "parameters": st.dictionaries(st.sampled_from(TEXTS), values(), max_size=2),
        "startAt": edges(),
        "endAt": edges(),
        "jitter": st.sampled_from(LENGTHS),
        "startDeadline": st.sampled_from(LENGTHS),
        "catchUpWindow": st.sampled_from(LENGTHS),
        "catchUp": st.sampled_from(["all", "last", "none"]),
        "timeout": st.sampled_from(LENGTHS),
        "grace": st.sampled_from(LENGTHS),
        "maxRuns": st.sampled_from([1, 2**31, 2**63 - 1, 10**30]),
        "calendars": st.lists(st.sampled_from(CALENDARS), max_size=2, unique=True),
        "excluded": st.sampled_from(["skip", "next_open"]),
    }
    for name in draw(st.lists(st.sampled_from(sorted(optional)), max_size=5, unique=True)):
        body[name] = draw(optional[name])
    return body


CALENDARS = ["forever", "late", "end", "days"]
ENTRIES: dict[str, Any] = {
    "forever": [{"from": "1970-01-01T00:00", "to": "9999-12-29T00:00"}],
    "late": [{"cron": "0 0 20 12 *", "for": "366d"}],
    "end": [{"from": "9999-12-01T00:00", "to": "9999-12-30T23:59:59+14:00"}, {"cron": "0 0 29 12 *", "for": "40d"}],
    "days": [{"dates": ["1970-01-01", "9999-12-28"]}],
}


async def every_read(api: Api, known: dict[str, str]) -> None:
    """All GET routes of the table, as far as what they name is known."""
    for route in ROUTES:
        if route.method != "GET" or route.path in ("/docs", "/openapi.json", "/v1/events"):
            continue
        path = route.path
        for name, value in known.items():
            path = path.replace(f"{{{name}}}", value)
        if "{" in path:
            continue
        answer = await api("GET", path)
        assert answer.status_code < 500, (path, answer.text)
        if "nextCursor" in answer.text:
            assert all("error" not in row or row["error"] is None for row in answer.json().get("items", [])), path


@pytest.mark.asyncio(loop_scope="module")
async def test_calendars_at_the_end_of_time_are_readable(api: Api) -> None:
    for name, entries in ENTRIES.items():
        for zone in ZONES:
            answer = await api("PUT", f"/v1/calendars/{name}", json={"timezone": zone, "entries": entries})
            assert answer.status_code < 500, answer.text
    await every_read(api, {"name": "end"})


@given(body=jobs())
@settings(
    max_examples=2_000 if THOROUGH else 60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@pytest.mark.asyncio(loop_scope="module")
async def test_whatever_is_accepted_can_be_read_and_listed(api: Api, body: dict[str, Any]) -> None:
    answer = await api(
        "POST", "/v1/jobs", content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code < 500, answer.text
    if answer.status_code != 201:
        return
    known = {"jobId": answer.json()["jobId"]}
    runs = (await api.get(f"/v1/jobs/{known['jobId']}/runs"))["items"]
    if runs:
        known["runId"] = runs[0]["runId"]
    await every_read(api, known)
    schedule = {name: body[name] for name in ("schedule", "startAt", "endAt", "calendars", "excluded") if name in body}
    assert (await api("POST", "/v1/schedules:preview", json=schedule)).status_code < 500
    past = {"from": EDGES[0], "to": EDGES[2], "dryRun": True}
    assert (await api("POST", f"/v1/jobs/{known['jobId']}/backfill", json=past)).status_code < 500
    await api("POST", f"/v1/jobs/{known['jobId']}/pause", json={"until": "9999-12-31T00:00:00Z"})
    await every_read(api, known)
    await api("DELETE", f"/v1/jobs/{known['jobId']}")
    await every_read(api, known)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(MAX - 10 * SECOND, MAX + 10 * SECOND))
def test_every_instant_can_be_shown(moment: int) -> None:
    """What cannot be written as a year of four digits is shown as the nearest instant that can."""
    shown = render(moment)
    assert shown.endswith("Z")
    assert to_datetime(moment).year >= 1
    if 0 <= moment <= MAX:
        assert instant.parse(shown) == moment


@pytest.mark.asyncio(loop_scope="module")
async def test_a_row_that_cannot_be_shown_costs_no_other_row(api: Api) -> None:
    first, second = await api.create(name="good"), await api.create(name="bad")
    real = views.extended_job_view

    def broken(kind: Any, found: Any, **more: Any) -> Any:
        if found.job.id == second["jobId"]:
            raise OverflowError("year 10000 is out of range")
        return real(kind, found, **more)

    with mock.patch.object(views, "extended_job_view", broken):
        for path in ("/v1/jobs",):
            answer = await api.get(path)
            rows = {row["jobId"]: row for row in (answer if isinstance(answer, list) else answer["items"])}
            assert rows[first["jobId"]]["name"] == "good"
            assert set(rows[second["jobId"]]) == {"jobId", "error"}
            assert "year 10000" in rows[second["jobId"]]["error"]["detail"]


LISTS: list[tuple[Any, str]] = [
    (job_requests.jobs(), "jobId"),
    (run_requests.runs(), "runId"),
    (worker_requests.workers(), "workerId"),
    (registry_requests.calendars(), "name"),
    (registry_requests.tasks(), "taskId"),
    (registry_requests.keys(), "keyId"),
    (workflow_requests.workflows(), "jobId"),
    (backfill_requests.backfills(), "backfillId"),
]


@pytest.mark.parametrize(("request_", "name"), LISTS, ids=lambda value: value if isinstance(value, str) else "")
def test_clients_read_lists_with_a_row_that_cannot_be_shown(request_: Any, name: str) -> None:
    row = {name: "x_1", "error": {"code": "unrenderable", "detail": "this row cannot be rendered: OverflowError"}}
    found = exchange.read(request_, json.dumps({"items": [row], "nextCursor": None}).encode())
    [only] = found.items
    assert "x_1" in repr(only)


def test_an_export_names_the_jobs_that_it_leaves_out() -> None:
    rows = [{"jobId": "j_2", "error": {"code": "unrenderable", "detail": "this row cannot be rendered: OverflowError"}}]
    server = mock.Mock(all=lambda status: iter(rows))
    contents, left_out = export(server, None)
    assert left_out == ["job j_2 is left out: this row cannot be rendered: OverflowError"]
    assert not contents["jobs"]
