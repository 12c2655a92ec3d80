"""`POST /v1/schedules:preview`: what a schedule would do, shown before the job is saved."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import OTHER, Api, running_api
from timeball.domain import instant
from timeball.domain.instant import DAY

PATH = "/v1/schedules:preview"
SPRING = "2026-03-29T00:00:00Z"
BERLIN = "clocks in Europe/Berlin"
AUTUMN = "2026-10-24T12:00:00Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder: Path = tmp_path_factory.mktemp("api")
    async with running_api(folder) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def preview(api: Api, **body: Any) -> Any:
    answer = await api("POST", PATH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def cron(expression: str, **rest: Any) -> dict[str, Any]:
    return {"type": "cron", "expression": expression, **rest}


async def test_a_sentence_fires_marks_and_warnings(api: Api) -> None:
    found = await preview(api, schedule=cron("30 2 * * *", timezone="Europe/Berlin"), after=SPRING, count=2)
    assert found == {
        "description": "At 02:30 every day (Europe/Berlin)",
        "fires": [
            {
                "at": "2026-03-29T01:00:00Z",
                "local": "2026-03-29T03:00:00+02:00",
                "mark": "dst_gap",
                "note": "02:30 does not exist: clocks go from 02:00 to 03:00",
            },
            {"at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00"},
        ],
        "warnings": [
            f"on 2026-03-29 {BERLIN} go from 02:00 to 03:00: 02:30 does not exist and fires at 03:00 instead",
            f"on 2026-10-25 {BERLIN} go from 03:00 to 02:00: 02:30 comes twice and fires the first time only",
            f"on 2027-03-28 {BERLIN} go from 02:00 to 03:00: 02:30 does not exist and fires at 03:00 instead",
        ],
    }


async def test_what_the_schedule_says_about_clock_changes_counts(api: Api) -> None:
    both = cron("30 2 * * *", timezone="Europe/Berlin", dstGap="skip", dstOverlap="both")
    autumn = await preview(api, schedule=both, after=AUTUMN, count=3)
    assert [fire.get("mark") for fire in autumn["fires"]] == ["dst_overlap", "dst_overlap", None]
    spring = await preview(api, schedule=both, after=SPRING, count=1)
    assert spring["fires"][0]["local"] == "2026-03-30T02:30:00+02:00"
    assert "does not fire" in spring["warnings"][0]


async def test_the_flat_shape_means_cron(api: Api) -> None:
    schedule = {"expression": "30 2 * * *", "timezone": "Europe/Berlin", "dstGap": "skip", "dstOverlap": "both"}
    flat = await preview(api, **schedule, count=3, after=AUTUMN)
    assert flat == await preview(api, schedule=cron(**schedule), count=3, after=AUTUMN)
    assert (await preview(api, expression="*/5 * * * *"))["description"] == "Every 5 minutes"


async def test_other_types_and_spellings(api: Api) -> None:
    interval = await preview(api, schedule={"type": "interval", "expression": "90m"}, after=SPRING, count=2)
    assert [fire["at"] for fire in interval["fires"]] == ["2026-03-29T01:30:00Z", "2026-03-29T03:00:00Z"]
    date = await preview(api, schedule={"type": "DATE", "expression": "2020-01-01T00:00:00+02:00"})
    assert date["description"] == "Once, on 1 January 2020 at 00:00 UTC+02:00"
    assert date["fires"] == [{"at": "2019-12-31T22:00:00Z", "local": "2019-12-31T22:00:00+00:00"}]
    assert date["warnings"] == ["this time is in the past: the job runs as soon as it is accepted"]
    assert (await preview(api, schedule={"type": "immediate"}))["description"].startswith("Once")
    assert (await preview(api, schedule={"type": "Cron", "expression": "@daily"}, after=None))["warnings"] == []


async def test_now_and_ten_are_the_defaults(api: Api) -> None:
    now = api.server.context.store.now()
    fires = (await preview(api, schedule=cron("* * * * *")))["fires"]
    assert len(fires) == 10
    assert now < instant.parse(fires[0]["at"]) < now + DAY


async def test_the_name_chooses_the_slot_that_the_job_will_have(api: Api) -> None:
    schedule = cron("H H H * * *")
    job = await api.create(name="etl", schedule=schedule)
    named = await preview(api, schedule=schedule, name="etl", count=1)
    assert named["fires"][0]["at"] == job["nextFireAt"]
    assert named["description"].endswith("(the slot that H gives this job)")
    assert named["warnings"] == []
    elsewhere = await api("POST", PATH, OTHER, json={"schedule": schedule, "name": "etl", "count": 1})
    assert elsewhere.json()["fires"] != named["fires"]
    nameless = await preview(api, schedule=schedule)
    assert nameless["warnings"][0].startswith("H derives the slot of a job from its name")


async def test_a_thousand_rare_fires(api: Api) -> None:
    leap = await preview(api, expression="0 0 29 2 *", timezone="Europe/Berlin", count=1000, after=SPRING)
    assert len(leap["fires"]) == 1000
    assert "29 February exists in leap years only" in leap["warnings"]
    end = await preview(api, expression="0 0 * * *", count=1000, after="9999-12-28T00:00:00Z")
    assert end["warnings"] == ["the schedule fires only 1 time before the end of the year 9999"]


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({}, "/schedule", "'schedule' is missing"),
        ({"schedule": 5}, "/schedule", "Expected object"),
        ({"schedule": {"expression": "* * * * *"}}, "/schedule/type", "missing"),
        ({"schedule": cron("0 0 30 2 *")}, "/schedule/expression", "never fires: month '2' has no day '30'"),
        ({"schedule": {"type": "cron"}}, "/schedule/expression", "'expression' is missing"),
        ({"schedule": {"type": "corn", "expression": "* * * * *"}}, "/schedule/type", "did you mean 'cron'?"),
        ({"schedule": cron("* * * * *", timezone="Berlin")}, "/schedule/timezone", "did you mean 'Europe/Berlin'?"),
        ({"schedule": cron("* * * * *", dstGap="no")}, "/schedule/dstGap", "is not one of run, skip"),
        ({"schedule": {"type": "interval", "expression": "1ms"}}, "/schedule/expression", "too short"),
        ({"schedule": {"type": "date", "expression": "tomorrow"}}, "/schedule/expression", "is not a time"),
        ({"schedule": {"type": "immediate", "timezone": "UTC"}}, "/schedule/timezone", "there is no field"),
        ({"schedule": cron("* * * * *"), "expression": "@daily"}, "/expression", "belongs in the schedule"),
        ({"expression": "61 * * * *"}, "/expression", "61 is out of range 0-59"),
        ({"timezone": "UTC", "count": 3}, "/expression", "'expression' is missing"),
        ({"expression": 5}, "/expression", "Expected str"),
        ({"expression": "* * * * *", "timezone": "Mars/Base"}, "/timezone", "there is no time zone 'Mars/Base'"),
        ({"expression": "* * * * *", "dstOverlap": "none"}, "/dstOverlap", "is not one of both, first"),
        ({"expression": "* * * * *", "cuont": 3}, "/cuont", "did you mean 'count'?"),
        ({"expression": "* * * * *", "count": 0}, "/count", ">= 1"),
        ({"expression": "* * * * *", "count": 1001}, "/count", "<= 1000"),
        ({"expression": "* * * * *", "count": "5"}, "/count", "Expected int"),
        ({"expression": "* * * * *", "after": "2026-03-01"}, "/after", "is not a time; write it like"),
        ({"expression": "* * * * *", "after": "1901-01-01T00:00:00Z"}, "/after", "outside the years 1970 to 9999"),
        ({"expression": "* * * * *", "name": "x" * 201}, "/name", "length <= 200"),
        ({"expression": "* " * 200}, "/expression", "at most 256 characters"),
        ([], "", "JSON object"),
    ],
)
async def test_bad_input_is_pointed_at(api: Api, body: Any, pointer: str, detail: str) -> None:
    answer = await api("POST", PATH, json=body)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["errors"][0]["pointer"] == pointer
    assert detail in problem["errors"][0]["detail"]
    of_schedule = pointer.startswith(("/schedule", "/expression", "/timezone", "/dst"))
    assert problem["code"] == ("invalid_schedule" if of_schedule and "belongs" not in detail else "invalid")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"text'])
async def test_what_is_no_json_is_a_400(api: Api, body: bytes) -> None:
    assert (await api("POST", PATH, content=body)).status_code == 400


@pytest.mark.parametrize(
    "rules",
    [
        {"startAt": "2099-03-01T12:00:00Z", "maxRuns": 3},
        {"startAt": "2099-03-01T00:00:00Z", "endAt": "2099-03-03T02:00:00Z"},
        {"startAt": "2099-03-01T00:00:00Z", "endAt": "2099-03-05T00:00:00Z", "calendars": ["freeze"]},
        {"startAt": "2099-03-01T00:00:00Z", "maxRuns": 4, "calendars": ["freeze"], "excluded": "next_open"},
        {
            "startAt": "2099-03-01T00:00:00Z", "endAt": "2099-03-03T00:00:00Z",
            "calendars": ["freeze"], "excluded": "next_open",
        },
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_and_expression", [("cron", "0 2 * * *"), ("interval", "7h")])
async def test_bounds_mean_what_they_mean_for_a_job(
    api: Api, rules: dict[str, Any], type_and_expression: tuple[str, str]
) -> None:
    closed = {"entries": [{"from": "2099-03-02T00:00", "to": "2099-03-04T12:00"}]}
    assert (await api("PUT", "/v1/calendars/freeze", json=closed)).status_code < 300
    kind, expression = type_and_expression
    schedule = {"type": kind, "expression": expression}
    previewed = await api("POST", PATH, json={"schedule": schedule, "count": 20, **rules})
    assert previewed.status_code == 200, previewed.text
    job = await api.create(schedule=schedule, **rules)
    coming = (await api.get(f"/v1/jobs/{job['jobId']}/next?count=20"))["items"]
    told = [(fire["at"], fire.get("mark")) for fire in previewed.json()["fires"]]
    # A job's own list ends with the last fire that happens; what a calendar excludes after it is of no use there.
    while told and told[-1][1] == "excluded":
        told.pop()
    assert told == [(fire["fireTime"], fire.get("mark")) for fire in coming]
    assert told


async def test_bounds_that_make_no_sense_are_refused_with_a_pointer(api: Api) -> None:
    daily = {"type": "cron", "expression": "0 2 * * *"}
    once = {"type": "date", "expression": "2099-01-01T00:00:00Z"}
    for body, pointer in (
        ({"schedule": once, "maxRuns": 2}, "/maxRuns"),
        ({"schedule": daily, "startAt": "soon"}, "/startAt"),
        ({"schedule": daily, "startAt": "2099-01-02T00:00:00Z", "endAt": "2099-01-01T00:00:00Z"}, "/endAt"),
        ({"schedule": daily, "maxRuns": 0}, "/maxRuns"),
    ):
        refused = await api("POST", PATH, json=body)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    nothing = await api("POST", PATH, json={"schedule": daily, "endAt": "2020-01-01T00:00:00Z"})
    assert nothing.json()["fires"] == []
    assert "never fires" in nothing.json()["warnings"][0]
