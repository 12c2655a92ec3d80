"""I28: no request holds the event loop for more than 50 ms of CPU, whatever it asks for and whatever is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.api import Api, running_api, serving
from tests.support.stall_cases import CASES, REDUCED, WHOLE, missing, stored
from tests.support.stalls import MAX_STALL_SECONDS, Stall, measured
from tests.support.thorough import THOROUGH
from timeball import system
from timeball.api.app import ROUTES
from timeball.stores.postgres import PostgresStore

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


@pytest.mark.xfail(strict=True, reason="item 2: requests hold the event loop for seconds")
@pytest.mark.timeout(1_200 if THOROUGH else 120)
async def test_no_request_holds_the_event_loop(api: Api) -> None:
    """I28: the CPU time of the event loop's thread between two ticks of a 5 ms ticker, for every route."""
    state = await stored(api, WHOLE if THOROUGH else REDUCED)
    found: dict[str, Stall] = {}
    for route in ROUTES:
        build = CASES[route.method, route.path]
        for about, stall in (await measured(api.app, route.method, lambda build=build: build(state))).items():
            found[f"{route.method} {route.path} {about}".rstrip()] = stall
    too_long = {name: f"{stall.cpu * 1e3:.0f} ms" for name, stall in found.items() if stall.cpu > MAX_STALL_SECONDS}
    assert not too_long, "these hold the event loop for too long"
