"""Variables that make an interpreter run other code are refused for script jobs, in every place where a task is
written."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import Api, running_api

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = {"kind": "script", "script": "a.py", "env": {"REGION": "eu", "PYTHONWARNINGS": "x"}}
GOOD = {"kind": "script", "script": "a.py", "env": {"REGION": "eu"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder: Path = tmp_path_factory.mktemp("api")
    async with running_api(folder) as running:
        yield running


def pointer(answer: Any) -> str:
    assert answer.status_code == 422, answer.text
    assert "PYTHONWARNINGS" in answer.json()["detail"]
    return str(answer.json()["errors"][0]["pointer"])


async def test_a_job_with_such_a_variable_is_refused(api: Api) -> None:
    assert pointer(await api("POST", "/v1/jobs", json={"task": EVIL})) == "/task/env/PYTHONWARNINGS"
    flat = {"payload": {"script": "a.py", "env": EVIL["env"]}}
    assert pointer(await api("POST", "/v1/jobs", json=flat)) == "/payload/env/PYTHONWARNINGS"
    assert (await api("POST", "/v1/jobs", json={"task": GOOD})).status_code == 201
    shell = {"kind": "shell", "command": "true", "env": EVIL["env"]}
    assert (await api("POST", "/v1/jobs", json={"task": shell})).status_code == 201, "it may run anything anyway"


async def test_only_such_a_job_of_a_batch_is_refused(api: Api) -> None:
    answer = await api("POST", "/v1/jobs:batch", json=[{"task": GOOD}, {"task": EVIL}])
    first, second = answer.json()["items"]
    assert "jobId" in first
    assert second["error"]["errors"][0]["pointer"] == "/task/env/PYTHONWARNINGS"


async def test_a_change_to_such_a_job_is_refused(api: Api) -> None:
    job = (await api("POST", "/v1/jobs", json={"task": GOOD})).json()["jobId"]
    assert pointer(await api("PATCH", f"/v1/jobs/{job}", json={"task": EVIL})) == "/task/env/PYTHONWARNINGS"


async def test_a_registered_task_with_such_a_variable_is_refused(api: Api) -> None:
    assert pointer(await api("PUT", "/v1/tasks/evil", json=EVIL)) == "/env/PYTHONWARNINGS"
    assert (await api("PUT", "/v1/tasks/good", json=GOOD)).status_code == 201


async def test_a_workflow_with_such_a_task_is_refused(api: Api) -> None:
    tasks = [{"name": "a", "task": GOOD}, {"name": "b", "task": EVIL}]
    answer = await api("POST", "/v1/workflows", json={"name": "w", "tasks": tasks})
    assert pointer(answer) == "/tasks/1/task/env/PYTHONWARNINGS"
