"""Lateness objectives: of a job, and of all jobs with a tag."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.api import FakeWorker, running_api
from timeball.domain.job.slo import Starts

SLO = {"startWithin": "5s", "objective": 90}


def newest(windows: list[dict[str, Any]]) -> tuple[int, int, float | None, float | None]:
    assert [each["window"] for each in windows] == ["1h", "6h", "1d", "7d", "30d"]
    first = windows[0]
    return first["starts"], first["late"], first["burnRate"], first["budgetLeft"]


async def test_a_job_and_a_tag_are_compared_with_their_objectives(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        jobs = [await api.create(name=f"n{at}", tags=["etl"], slo=SLO) for at in range(2)]
        await api.create(tags=["etl"])
        worker = FakeWorker(api)
        await worker.hello()
        for _ in range(3):
            await worker.succeed(await worker.take())
        of_job = await api.get(f"/v1/slo?jobId={jobs[0]['jobId']}")
        assert newest(of_job["total"]) == (1, 0, 0.0, 1.0)
        of_tag = await api.get("/v1/slo?tag=etl")
        assert {each["jobId"] for each in of_tag["items"]} == {each["jobId"] for each in jobs}
        assert all(each["slo"] == SLO for each in of_tag["items"])
        assert newest(of_tag["total"]) == (2, 0, 0.0, 1.0)
        assert not of_tag["capped"]
        assert (await api.get(f"/v1/jobs/{jobs[0]['jobId']}"))["slo"] == SLO


async def test_a_job_without_an_objective_has_no_items(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        job = await api.create()
        found = await api.get(f"/v1/slo?jobId={job['jobId']}")
        assert (found["items"], newest(found["total"])) == ([], (0, 0, None, None))


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?jobId=j_1&tag=a", 400), ("?jobId=j_1", 404), ("?jobId=nonsense", 404)]
)
async def test_a_request_names_a_job_or_a_tag(tmp_path: Path, query: str, status: int) -> None:
    async with running_api(tmp_path) as api:
        assert (await api("GET", f"/v1/slo{query}")).status_code in (status, 422)


@pytest.mark.parametrize("slo", [{"startWithin": "5s"}, {**SLO, "objective": 100}, {**SLO, "startWithin": "0s"}])
async def test_an_objective_has_to_leave_a_budget(tmp_path: Path, slo: dict[str, Any]) -> None:
    async with running_api(tmp_path) as api:
        job = {"task": {"kind": "shell", "command": "true"}, "slo": slo}
        answer = await api("POST", "/v1/jobs", json=job)
        assert answer.status_code in (400, 422), answer.text
        assert "slo" in answer.text


def test_a_budget_is_the_share_of_starts_that_may_be_late() -> None:
    starts = Starts(1_000, 2, 1_000 * 0.001)
    assert starts.burn_rate == pytest.approx(2)
    assert starts.budget_left == pytest.approx(-1)
    assert starts.plus(Starts(1_000, 0, 3.0)).budget_left == pytest.approx(0.5)
