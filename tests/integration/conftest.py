import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.api import ADMIN
from tests.support.guard_programs import ALWAYS_FORK, Guarded, variant
from tests.support.live_server import LiveServer
from tests.support.still import World
from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.sandbox.confinement import Confinement


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.open()
    yield world
    await world.store.close()


@pytest.fixture(params=["vfork", "fork"])
def guard_program(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The program of all guards: one that starts jobs with vfork if it can, and one that always forks."""
    if request.param == "fork":
        forking = variant(tmp_path_factory.mktemp("guard") / "guard_program.py", ALWAYS_FORK)
        monkeypatch.setattr(guard_module, "PROGRAM", forking)
    return guard_module.PROGRAM


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("live")) as live:
        yield live


@pytest.fixture
def environment_of_live(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variables, the home and the current folder of a user whose commands go to `live`."""
    for name in os.environ:
        if name.startswith("TIMEBALL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TIMEBALL_URL", live.url)
    monkeypatch.setenv("TIMEBALL_TOKEN", ADMIN)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def guarded() -> AsyncIterator[Guarded]:
    """A function that returns a guard with a confinement, which is closed after the test."""
    guards: list[ProcessGuard] = []

    def make(confinement: Confinement) -> ProcessGuard:
        guards.append(ProcessGuard(confinement))
        return guards[-1]

    yield make
    for guard in guards:
        await guard.close()
