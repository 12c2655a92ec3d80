"""A client of each kind, and the stub server that it calls: no socket, no clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.both_clients import BOTH, either
from tests.support.stub_server import StubServer
from timeball import Client


@pytest.fixture
def server() -> StubServer:
    return StubServer()


@pytest.fixture(params=BOTH)
def client(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Client]:
    """It knows two servers, whose answers come from one."""
    monkeypatch.chdir(tmp_path)
    with either(request.param, "http://one,http://two", "secret", stub=server) as client:
        yield client
