"""I14: one idempotency key gives one job and one answer: with a hundred submits at once, and across two servers on one
PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.processes import Api, running_server, running_up

JOB = {
    "name": "once",
    "task": {"kind": "shell", "command": "true"},
    "schedule": {"type": "interval", "expression": "1h"},
}


def race(*apis: Api) -> None:
    def submit(number: int) -> tuple[int, bytes]:
        answer = apis[number % len(apis)].http.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "the-key"})
        return answer.status_code, answer.content

    with ThreadPoolExecutor(20) as pool:
        answers = set(pool.map(submit, range(100)))
    assert len(answers) == 1, answers
    assert {status for status, _ in answers} == {201}
    for api in apis:
        assert len(api.call("GET", "/v1/jobs?name=once")["items"]) == 1
    other = apis[0].http.post("/v1/jobs", json={**JOB, "name": "other"}, headers={"Idempotency-Key": "the-key"})
    assert other.status_code == 422
    assert other.json()["code"] == "idempotency_mismatch"


def test_a_hundred_submits_with_one_key_make_one_job(tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        race(api)


def test_also_across_two_servers(tmp_path: Path, postgres_dsn: str) -> None:
    with running_server(tmp_path, postgres_dsn) as (_, one), running_server(tmp_path, postgres_dsn) as (_, two):
        race(one, two)
