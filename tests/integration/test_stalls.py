"""I28: no request holds the event loop for more than 50 ms of CPU, whatever it requests and whatever is stored."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.api import Api, FakeWorker, running_api, serving
from tests.support.stall_cases import REDUCED, WHOLE, State, measured_route, missing, stored
from tests.support.stalls import MAX_STALL_SECONDS, Stall
from tests.support.thorough import THOROUGH
from timeball import system
from timeball.api.app import ROUTES
from timeball.bootstrap.process import tune_interpreter
from timeball.stores.postgres.store import PostgresStore

STORES = ("sqlite", "postgres") if THOROUGH else ("sqlite",)


@pytest.fixture(params=STORES)
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    if request.param == "sqlite":
        async with running_api(tmp_path) as running:
            yield running
    else:
        store = PostgresStore(request.getfixturevalue("postgres_dsn"), monotonic=system.monotonic)
        async with serving(store) as running:
            yield running


def test_every_route_has_a_worst_request() -> None:
    """I28: a new route is measured, too."""
    assert not missing(), f"add the worst legal request of each to tests/support/stall_cases.py: {missing()}"


@pytest.fixture
def tuned() -> Iterator[None]:
    """The interpreter as servers run: the garbage collector is part of what is measured."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    tune_interpreter()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("route", ["/v1/jobs", "/v1/workflows"])
async def test_the_largest_bodies_do_not_hold_the_event_loop(api: Api, route: str) -> None:
    """I28: the requests that decode and store most, on an empty store."""
    await api("PUT", "/v1/tasks/t", json={"kind": "shell", "command": "true"})
    state = State(api, REDUCED, FakeWorker(api))
    (measured,) = (each for each in ROUTES if (each.method, each.path) == ("POST", route))
    stalls = await measured_route(state, measured)
    assert stalls
    assert {about: stall for about, stall in stalls.items() if stall.cpu > MAX_STALL_SECONDS} == {}


@pytest.mark.parts
@pytest.mark.usefixtures("tuned")
@pytest.mark.timeout(1_200 if THOROUGH else 300)
async def test_no_request_holds_the_event_loop(api: Api) -> None:
    """I28: the CPU time of the event loop's thread between two ticks of a 5 ms ticker, for every route."""
    state = await stored(api, WHOLE if THOROUGH else REDUCED)
    found: dict[str, Stall] = {}
    for route in ROUTES:
        for about, stall in (await measured_route(state, route)).items():
            found[f"{route.method} {route.path} {about}".rstrip()] = stall
    too_long = {name: f"{stall.cpu * 1e3:.0f} ms" for name, stall in found.items() if stall.cpu > MAX_STALL_SECONDS}
    assert not too_long, "these hold the event loop for too long"
