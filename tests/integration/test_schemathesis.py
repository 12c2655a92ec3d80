"""Requests that are generated from the OpenAPI document: none causes an internal error, and every answer is as
documented.

Schemathesis takes a second to import, so that is left to the one process that runs these tests.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import hypothesis
import msgspec
import pytest
import uvicorn

from tests.support.api import ADMIN, running_api
from tests.support.thorough import THOROUGH
from timeball.api.app import ROUTES
from timeball.api.documentation import openapi
from timeball.api.http.fast_protocol import FastProtocol

if TYPE_CHECKING:
    import schemathesis
    from hypothesis.strategies import SearchStrategy
    from schemathesis.schemas import APIOperation

DOCUMENT = msgspec.json.decode(msgspec.json.encode(openapi.document(ROUTES, "0.0.0")))
ENDLESS = {"GET /v1/events"}
"""Their answers have no end."""
ALL_OPERATIONS = [f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods]
OPERATIONS = [name for name in ALL_OPERATIONS if name not in ENDLESS]

pytestmark = pytest.mark.xdist_group("schemathesis")


@pytest.fixture(scope="module")
def operations() -> dict[str, APIOperation]:
    """As Schemathesis reads them."""
    import schemathesis

    read = [found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
    assert sorted(each.label for each in read) == sorted(ALL_OPERATIONS)
    return {each.label: each for each in read}


@pytest.fixture(scope="module")
def known_ids(address: str) -> dict[str, str]:
    """A job and a run that exist: most operations say only 404 to made-up ids."""
    job = {"task": {"kind": "shell", "command": "true"}, "schedule": {"type": "cron", "expression": "* * * * *"}}
    headers = {"Authorization": f"Bearer {ADMIN}"}
    with httpx2.Client(base_url=address, headers=headers, verify=False) as client:
        job_id = client.post("/v1/jobs", json=job).json()["jobId"]
        run_id = client.post(f"/v1/jobs/{job_id}/run").json()["runId"]
    return {"jobId": job_id, "runId": run_id}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a port of its own: requests take the same way as everybody's."""
    folder: Path = tmp_path_factory.mktemp("schemathesis")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started, servers = threading.Event(), list[uvicorn.Server]()

        async def serve() -> None:
            async with running_api(folder) as api:
                config = uvicorn.Config(
                    api.app,
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    http=FastProtocol,
                    ws="none",
                    proxy_headers=False,
                )
                servers.append(uvicorn.Server(config))
                started.set()
                await servers[0].serve([listener])

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert started.wait(30)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        servers[0].should_exit = True
        thread.join(30)


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_breaks_the_server(
    name: str, operations: dict[str, APIOperation], address: str, known_ids: dict[str, str]
) -> None:
    """Schemathesis' own parametrization gives all tests one name, and of those xdist runs but one."""
    from schemathesis import checks

    @hypothesis.settings(
        max_examples=200 if THOROUGH else 3,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=_cases(operations[name]))
    def ask(case: schemathesis.Case) -> None:
        case.query.pop("follow", None)  # such an answer has no end before the run has
        for part, ident in known_ids.items():
            if str(case.path_parameters.get(part, "")).startswith(ident[:2]):
                case.path_parameters[part] = ident
        case.call_and_validate(
            base_url=address,
            headers={"Authorization": f"Bearer {ADMIN}"},
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    ask()


def _cases(operation: APIOperation) -> SearchStrategy[schemathesis.Case]:
    """As the schema wants them, and not."""
    import schemathesis

    valid = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    if operation.body or operation.query or operation.path_parameters:
        return valid | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    return valid
