"""Calendars and windows over the API: which input is refused, what is shown, and that each tenant has its own
calendars."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import OTHER, Api, FakeWorker, running_api

FREEZE = {
    "timezone": "Europe/Berlin",
    "entries": [{"from": "2037-12-20T00:00", "to": "2038-01-03T00:00", "reason": "year-end freeze"}],
}
TASK = {"kind": "shell", "command": "true"}
DAILY = {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder: Path = tmp_path_factory.mktemp("api")
    async with running_api(folder) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def put(api: Api, name: str, body: Any, status: int = 201) -> Any:
    answer = await api("PUT", f"/v1/calendars/{name}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_calendar_is_kept_shown_listed_and_forgotten(api: Api) -> None:
    made = await put(api, "kept", FREEZE)
    assert made == {"name": "kept", "description": "", "version": 1, "updatedAt": made["updatedAt"], **FREEZE}
    assert await put(api, "kept", FREEZE, 201) == made, "the same again changes nothing"
    changed = await put(api, "kept", {"entries": [{"dates": ["2037-12-25"]}]}, 200)
    assert (changed["version"], changed["timezone"]) == (2, "UTC")
    assert (await api("GET", "/v1/calendars/kept")).json() == changed
    assert changed in (await api("GET", "/v1/calendars")).json()["items"]
    assert (await api("GET", "/v1/calendars/kept", key=OTHER)).status_code == 404
    assert (await api("DELETE", "/v1/calendars/kept", key=OTHER)).status_code == 404
    assert (await api("DELETE", "/v1/calendars/kept")).status_code == 204
    assert (await api("DELETE", "/v1/calendars/kept")).status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"entries": [{"from": "2026-12-20T00:00"}]}, "/entries/0", "either dates, or from and to"),
        ({"entries": [{"cron": "0 22 * * FRI", "for": "1s"}]}, "/entries/0", "too short"),
        ({"entries": [{"dates": ["2026-02-30"]}]}, "/entries/0", "not a date"),
        ({"timezone": "Berlin", "entries": []}, "/timezone", "did you mean"),
        ({"entries": [{"dates": [3]}]}, "/entries/0/dates/0", "str"),
        ({"entries": [{"cron": "* * * * *", "for": "1m"}]}, "/entries", "never open"),
        ({"entrys": []}, "/entrys", ""),
        ([], "", ""),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(api: Api, body: Any, pointer: str, detail: str) -> None:
    answer = await api("PUT", "/v1/calendars/wrong", json=body)
    assert answer.status_code == 422, answer.text
    [problem] = answer.json()["errors"]
    assert problem["pointer"] == pointer
    assert detail in problem["detail"]


async def preview(api: Api, calendar: Any, since: str, until: str) -> Any:
    answer = await api("POST", "/v1/calendars:preview", json={"calendar": calendar, "from": since, "to": until})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_preview_of_a_calendar_lists_its_closed_times(api: Api) -> None:
    entries = [{"cron": "0 22 * * FRI", "for": "58h"}, *FREEZE["entries"], {"dates": ["2038-01-06", "2038-01-07"]}]
    found = await preview(
        api, {"timezone": "Europe/Berlin", "entries": entries}, "2037-12-12T00:00:00Z", "2038-01-08T00:00:00Z"
    )
    assert (found["from"], found["to"]) == ("2037-12-12T00:00:00Z", "2038-01-08T00:00:00Z")
    shown = [(each["from"][:16], each["to"][:16], each["entry"]) for each in found["closed"]]
    assert shown == [
        ("2037-12-12T00:00", "2037-12-14T07:00", 0),  # cut to the range
        ("2037-12-18T21:00", "2037-12-19T23:00", 0),
        ("2037-12-19T23:00", "2038-01-02T23:00", 1),
        ("2038-01-02T23:00", "2038-01-04T07:00", 0),
        ("2038-01-05T23:00", "2038-01-06T23:00", 2),
        ("2038-01-06T23:00", "2038-01-07T23:00", 2),
    ]
    reasons = [each["reason"] for each in found["closed"]]
    assert reasons[2] == "year-end freeze (2037-12-20T00:00 to 2038-01-03T00:00)"
    assert reasons[-1] == "2038-01-07"


async def test_a_preview_of_a_calendar_with_many_closed_times_ends_early_and_can_be_continued(api: Api) -> None:
    often = {"entries": [{"cron": "*/5 * * * *", "for": "2m"}]}
    since, until, found = "2037-01-01T00:00:00Z", "2037-01-15T00:00:00Z", []
    while since != until:
        page = await preview(api, often, since, until)
        assert 0 < len(page["closed"]) <= 2_000
        found += page["closed"]
        since = page["to"]
    assert len({each["from"] for each in found}) == len(found) == 14 * 288


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"calendar": {"entries": [{"dates": ["2037-02-30"]}]}}, "/calendar/entries/0"),
        ({"calendar": {"timezone": "Berlin", "entries": []}}, "/calendar/timezone"),
        ({"calendar": {"entries": [{"cron": "* * * * *", "for": "1m"}]}}, "/calendar/entries"),
        ({"calendar": FREEZE, "from": "now"}, "/from"),
        ({"calendar": FREEZE, "from": "2037-01-02T00:00:00Z", "to": "2037-01-01T00:00:00Z"}, "/to"),
        ({"calendar": FREEZE, "from": "2037-01-02T00:00:00Z", "to": "2039-01-01T00:00:00Z"}, "/to"),
    ],
)
async def test_a_wrong_preview_of_a_calendar_is_refused_with_the_place(api: Api, body: Any, pointer: str) -> None:
    answer = await api("POST", "/v1/calendars:preview", json=body)
    assert answer.status_code == 422, answer.text
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


async def test_jobs_are_listed_by_their_calendar(api: Api) -> None:
    await put(api, "users", FREEZE)
    body = {"name": "uses it", "task": TASK, "schedule": DAILY, "calendars": ["users"]}
    job_id = (await api("POST", "/v1/jobs", json=body)).json()["jobId"]
    await api("POST", "/v1/jobs", json={**body, "calendars": []})
    found = (await api("GET", "/v1/jobs?calendar=users")).json()["items"]
    assert [each["jobId"] for each in found] == [job_id]


async def test_jobs_refer_to_calendars_that_are_there(api: Api) -> None:
    await put(api, "freeze", FREEZE)
    job = {"task": TASK, "schedule": DAILY, "calendars": ["freeze", "frezee"]}
    for method, path, body in (("POST", "/v1/jobs", job), ("POST", "/v1/schedules:preview", {"schedule": DAILY})):
        answer = await api(method, path, json={**body, "calendars": ["freeze", "frezee"]})
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"pointer": "/calendars/1", "detail": "there is no calendar 'frezee'"}]
    answer = await api("POST", "/v1/jobs:batch", json=[job, {**job, "calendars": ["freeze"]}])
    refused, accepted = answer.json()["items"]
    assert refused["error"]["errors"][0]["pointer"] == "/calendars/1"
    job_id = accepted["jobId"]
    shown = (await api("GET", f"/v1/jobs/{job_id}")).json()
    assert (shown["calendars"], shown["excluded"]) == (["freeze"], "skip")
    answer = await api("PATCH", f"/v1/jobs/{job_id}", json={"calendars": ["x"]})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/calendars/0")
    other = await api("POST", "/v1/jobs", json={**job, "calendars": ["freeze"]}, key=OTHER)
    assert other.status_code == 422, "another tenant's calendar is none"
    used = await api("DELETE", "/v1/calendars/freeze")
    assert used.status_code == 409
    assert f"used by 1 job: {job_id}" in used.json()["detail"]
    answer = await api("PATCH", f"/v1/jobs/{job_id}", json={"excluded": "next_open", "calendars": ["freeze"]})
    assert answer.json()["excluded"] == "next_open"
    await api("DELETE", f"/v1/jobs/{job_id}")
    assert (await api("DELETE", "/v1/calendars/freeze")).status_code == 204


async def test_a_preview_marks_what_is_excluded(api: Api) -> None:
    await put(api, "holidays", {"timezone": "Europe/Berlin", "entries": [{"dates": ["2037-12-25", "2037-12-26"]}]})
    asked = {"schedule": DAILY, "after": "2037-12-24T00:00:00Z", "calendars": ["holidays"], "count": 4}
    found = (await api("POST", "/v1/schedules:preview", json=asked)).json()
    assert [(fire["at"], fire.get("mark")) for fire in found["fires"]] == [
        ("2037-12-24T01:00:00Z", None),
        ("2037-12-25T01:00:00Z", "excluded"),
        ("2037-12-26T01:00:00Z", "excluded"),
        ("2037-12-27T01:00:00Z", None),
    ]
    assert found["fires"][1]["note"] == "excluded by calendar 'holidays': 2037-12-25"
    moved = (await api("POST", "/v1/schedules:preview", json={**asked, "excluded": "next_open"})).json()
    assert moved["fires"][3] == {
        "at": "2037-12-26T23:00:00Z",
        "local": "2037-12-27T00:00:00+01:00",
        "mark": "next_open",
        "note": "once for all fires that were excluded by calendar 'holidays': 2037-12-25",
    }
    dense = {**asked, "schedule": {"type": "interval", "expression": "1s"}, "after": "2037-12-24T22:59:58Z", "count": 6}
    fires = (await api("POST", "/v1/schedules:preview", json=dense)).json()["fires"]
    assert [(fire["at"][11:], fire.get("mark")) for fire in fires] == [
        ("22:59:59Z", None),
        ("23:00:00Z", "excluded"),
        ("23:00:01Z", "excluded"),
        ("23:00:02Z", "excluded"),
        ("23:00:00Z", None),
        ("23:00:01Z", None),
    ]
    assert fires[3]["note"].endswith("; more fires are excluded until 2037-12-26T23:00:00Z")


async def test_a_job_tells_what_is_excluded_and_why(api: Api) -> None:
    await put(api, "now", {"entries": [{"from": "2020-01-01T00:00", "to": "2037-01-01T00:00", "reason": "closed"}]})
    job = {"task": TASK, "schedule": DAILY, "calendars": ["now"], "excluded": "next_open"}
    created = (await api("POST", "/v1/jobs", json=job)).json()
    assert created["nextFireAt"] == "2037-01-01T00:00:00Z"
    path = f"/v1/jobs/{created['jobId']}"
    assert (await api("GET", path)).json()["nextFireAt"] == "2037-01-01T00:00:00Z"
    items = (await api("GET", f"{path}/next?count=5")).json()["items"]
    assert [item.get("mark") for item in items] == ["excluded"] * 3 + ["next_open", None]
    assert items[3]["fireTime"] == "2037-01-01T00:00:00Z"
    why = (await api("GET", f"{path}/why")).json()
    assert why["reasons"][0]["code"] == "excluded"
    assert "excluded by calendar 'now': closed (" in why["reasons"][0]["text"]
    assert why["reasons"][0]["until"] == "2037-01-01T00:00:00Z"
    await api("PATCH", path, json={"calendars": None})
    assert "mark" not in (await api("GET", f"{path}/next?count=1")).json()["items"][0]


async def test_a_window_is_answered_with_its_slot(api: Api) -> None:
    schedule = {"type": "window", "from": "01:00", "to": "05:00", "timezone": "Europe/Berlin", "days": ["MON", "FRI"]}
    created = await api("POST", "/v1/jobs", json={"task": TASK, "schedule": schedule}, headers={"Idempotency-Key": "w"})
    again = await api("POST", "/v1/jobs", json={"task": TASK, "schedule": schedule}, headers={"Idempotency-Key": "w"})
    job = created.json()
    assert again.json() == job
    assert (created.status_code, job["schedule"], job["scheduleType"]) == (201, schedule, "window")
    assert "01:00:00" <= job["slot"] < "05:00:00"
    path = f"/v1/jobs/{job['jobId']}"
    assert (await api("GET", path)).json() == job
    coming = (await api("GET", f"{path}/next?count=2")).json()["items"]
    assert coming[0]["fireTime"] == job["nextFireAt"]
    sent_back = await api("PUT", path, json={**job, "description": "d"})
    assert (sent_back.status_code, sent_back.json()["slot"]) == (200, job["slot"])
    moved = (await api("PATCH", path, json={"window": {"from": "22:00", "to": "02:00"}})).json()
    assert moved["schedule"] == {"type": "window", "from": "22:00", "to": "02:00", "timezone": "UTC"}
    assert moved["slot"] >= "22:00:00" or moved["slot"] < "02:00:00"
    assert moved["nextFireAt"][11:19] == moved["slot"]


async def test_a_window_instead_of_a_schedule(api: Api) -> None:
    job = {"task": TASK, "window": {"from": "01:00", "to": "05:00"}, "timezone": "Asia/Tokyo"}
    made = (await api("POST", "/v1/jobs", json=job)).json()
    assert made["schedule"] == {"type": "window", "from": "01:00", "to": "05:00", "timezone": "Asia/Tokyo"}
    batch = (await api("POST", "/v1/jobs:batch", json=[job, {**job, "window": {"from": "1", "to": "2"}}])).json()
    accepted, refused = batch["items"]
    assert "jobId" in accepted
    assert refused["error"]["errors"][0]["pointer"] == "/window"
    found = (await api("POST", "/v1/schedules:preview", json={"schedule": {**made["schedule"]}, "count": 1})).json()
    assert "its slot between 01:00 and 05:00" in found["description"]
    assert "01:00" <= found["fires"][0]["local"][11:16] < "05:00"


async def test_a_forecast_counts_fires_and_knows_its_limits(api: Api) -> None:
    await put(api, "shut", {"entries": [{"from": "2020-01-01T00:00", "to": "2037-06-01T00:00"}]})
    cron = {"type": "cron", "expression": "0 * * * *"}
    await api("POST", "/v1/jobs:batch", json=[{"task": TASK, "schedule": cron}] * 30)
    await api("POST", "/v1/jobs", json={"task": TASK, "schedule": cron, "calendars": ["shut"]})
    found = (await api("GET", "/v1/forecast")).json()
    assert len(found["items"]) in (168, 169)
    assert (found["bucket"], found["slots"], found["moreJobs"]) == ("1h", 0, False)
    assert all(item["fires"] >= 30 for item in found["items"][1:-1])
    assert found["peak"]["fires"] == max(item["fires"] for item in found["items"])
    assert found["unmeasuredJobs"] >= 30
    assert (found["busiest"][0]["bucket"], len(found["busiest"])) == (found["peak"], 12)
    assert found["peak"]["jobs"] >= 30
    causes = found["busiest"][0]["causes"]
    assert [cause["runSeconds"] for cause in causes] == [None] * 5
    assert causes[0]["fires"] >= causes[-1]["fires"] >= 1
    assert (await api("GET", f"/v1/jobs/{causes[0]['jobId']}")).json()["name"] == causes[0]["jobName"]
    assert found["notes"][-1].startswith("No worker accepts runs")
    worker = FakeWorker(api)
    await worker.hello(slots=3)
    assert (await api("GET", "/v1/forecast")).json()["slots"] == 3
    await api("POST", f"/v1/workers/{worker.session}/drain")
    assert (await api("GET", "/v1/forecast")).json()["slots"] == 0, "it accepts no more runs"
    other = (await api("GET", "/v1/forecast?bucket=1d", key=OTHER)).json()
    assert (other["jobs"], other["peak"]) == (0, None)
    ranged = "from=2037-05-31T22:30:00Z&to=2037-06-01T02:30:00Z&bucket=30m"
    items = (await api("GET", f"/v1/forecast?{ranged}")).json()["items"]
    by_start = {item["from"]: item["fires"] for item in items}
    assert by_start["2037-06-01T01:00:00Z"] - by_start["2037-05-31T23:00:00Z"] == 1, "the freeze is over"
    for wrong, pointer in (
        ("bucket=1s", "/query/bucket"),
        ("from=2037-01-02T00:00:00Z&to=2037-01-01T00:00:00Z", "/query/to"),
        ("to=2199-01-01T00:00:00Z", "/query/to"),
        ("bucket=1m", "/query/bucket"),
        ("bucket=x", "/query/bucket"),
    ):
        answer = await api("GET", f"/v1/forecast?{wrong}")
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
