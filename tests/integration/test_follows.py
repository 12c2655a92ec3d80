"""Jobs that follow other jobs, over the API, the clients, the command line and files. Only the worker is a fake."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.integration.test_cli import run, run_json
from tests.support.api import Api, FakeWorker, running_api
from tests.support.both_clients import BOTH, either
from timeball import Invalid
from timeball.cli.root import timeball

pytestmark = pytest.mark.usefixtures("environment_of_live")

HOURLY = {"type": "interval", "expression": "1h"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def runs_of(api: Api, job_id: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while len(found := (await api.get(f"/v1/jobs/{job_id}/runs"))["items"]) < count:
            await asyncio.sleep(0.01)
    assert len(found) == count
    return list(found)


async def test_from_one_job_to_the_next(api: Api) -> None:
    first = (await api.create(schedule=HOURLY, name="load"))["jobId"]
    made = await api.create(followJob="load", name="report")
    second = made["jobId"]
    assert made["schedule"] == {"type": "follow", "job": first, "on": "succeeded"}
    assert (made["status"], made["nextFireAt"], made["scheduleType"]) == ("scheduled", None, "follow")
    after = f"fires after each success of job {first} (load)"
    coming = await api.get(f"/v1/jobs/{second}/next")
    assert (coming["items"], coming["detail"]) == ([], after)
    assert (await api.get(f"/v1/jobs/{second}/status"))["detail"] == after
    worker = FakeWorker(api)
    await worker.hello()
    cause = (await api("POST", f"/v1/jobs/{first}/run")).json()["runId"]
    await worker.succeed(await worker.take())
    [followed] = await runs_of(api, second, 1)
    assert (followed["followedRunId"], followed["origin"], followed["retryOf"]) == (cause, "schedule", None)
    why = await api.get(f"/v1/runs/{followed['runId']}/why")
    assert ("follows", cause) in [(each["code"], each.get("runId")) for each in why["reasons"]]
    taken = await worker.take()
    assert taken["jobId"] == second
    await worker.succeed(taken)
    ledger = await api.get(f"/v1/jobs/{second}/ledger")
    assert (ledger["due"], ledger["counts"]["on_time"]) == (1, 1)


async def test_a_batch_of_followers(api: Api) -> None:
    job = {"task": {"kind": "shell", "command": "true"}}
    first = (await api.create(schedule=HOURLY, name="load"))["jobId"]
    batch = [{**job, "followJob": name} for name in ("load", "nobody", first, "load")]
    answer = await api("POST", "/v1/jobs:batch", json=[*batch, job])
    items = answer.json()["items"]
    assert ["error" in item for item in items] == [False, True, False, False, False]
    shown = [await api.get(f"/v1/jobs/{item['jobId']}") for item in items if "jobId" in item]
    assert [each["schedule"].get("job") for each in shown] == [first, first, first, None]


async def test_what_is_wrong_is_told(api: Api) -> None:
    async def refused(status: int, method: str, path: str, **body: Any) -> str:
        answer = await api(method, path, json=body)
        assert answer.status_code == status, answer.text
        return f"{answer.json()['errors'][0]['pointer']} {answer.json()['detail']}"

    job = {"task": {"kind": "shell", "command": "true"}}
    assert "there is no job 'nobody'" in await refused(422, "POST", "/v1/jobs", followJob="nobody", **job)
    assert "/followJob" in await refused(422, "POST", "/v1/jobs", followJob=7, **job)
    first = (await api.create(schedule=HOURLY, name="a"))["jobId"]
    second = (await api.create(schedule={"type": "follow", "job": first, "on": "finished"}, name="b"))["jobId"]
    told = await refused(422, "PATCH", f"/v1/jobs/{first}", schedule={"type": "follow", "job": second})
    assert told == "/schedule/job jobs cannot follow each other in a circle: a follows b follows a"
    wrong = {"type": "follow", "job": first, "on": "x"}
    assert "/schedule/on" in await refused(422, "PATCH", f"/v1/jobs/{second}", schedule=wrong)
    backfill = await api("POST", f"/v1/jobs/{second}/backfill", json={"from": "2026-01-01T00:00:00Z"})
    assert backfill.status_code == 422, backfill.text
    assert (await api("DELETE", f"/v1/jobs/{first}")).status_code == 200
    assert "was cancelled" in (await api.get(f"/v1/jobs/{second}/why"))["reasons"][0]["text"]
    assert (await api("PATCH", f"/v1/jobs/{second}", json={"description": "still here"})).status_code == 200


@pytest.mark.parametrize("kind", BOTH)
def test_both_clients(kind: str) -> None:
    with either(kind) as client:
        first = client.create_job(f"{kind}-load", shell="true", every="1h")
        second = client.create_job(f"{kind}-report", shell="true", follow=first.job_id, on="failed")
        assert second.schedule == {"type": "follow", "job": first.job_id, "on": "failed"}
        with pytest.raises(Invalid, match="on applies to follow only"):
            client.create_job("wrong", shell="true", on="failed")


def said(*arguments: str) -> str:
    """What a command says, however it ends."""
    return CliRunner().invoke(timeball, arguments, prog_name="timeball").output


def test_on_the_command_line() -> None:
    run("jobs", "create", "cli-load", "--shell", "true", "--every", "1h")
    made = run_json("jobs", "create", "cli-report", "--shell", "true", "--follow", "cli-load", "--on", "finished")
    assert made["schedule"]["on"] == "finished"
    assert f"after each run of {made['schedule']['job']}" in run("jobs", "show", "cli-report")
    assert run_json("jobs", "update", "cli-report", "--on", "failed")["schedule"] == {
        **made["schedule"],
        "on": "failed",
    }


FILE = """\
set: follows
jobs:
  - name: filed-report
    task: {kind: shell, command: [report]}
    schedule: {type: follow, job: filed-load}
  - name: filed-load
    task: {kind: shell, command: [load]}
    schedule: {type: interval, expression: 1h}
"""


def test_in_files(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(FILE)
    assert "After each success of job filed-load" in said("plan", str(file))
    applied = run("apply", str(file))
    assert applied.index("filed-load") < applied.index("filed-report")
    assert run("plan", str(file)) == "nothing to do, 2 unchanged\n"
    assert "job: filed-load" in run("export", "--set", "follows")
    file.write_text(FILE.replace("type: interval, expression: 1h", "type: follow, job: filed-report"))
    assert "in a circle: filed-report follows filed-load follows filed-report" in said("plan", str(file))
    file.write_text(FILE.replace("job: filed-load}", "job: gone}"))
    assert "there is no job 'gone' to follow" in said("plan", str(file))
