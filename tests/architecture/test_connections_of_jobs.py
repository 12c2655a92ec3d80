"""HTTP jobs connect in one place, which checks the address."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import SRC, modules

DIALING = "http/dialing.py"
CONNECTS = frozenset(
    {
        "connect",
        "connect_ex",
        "create_connection",
        "create_datagram_endpoint",
        "open_connection",
        "sendto",
        "sock_connect",
        "sock_sendto",
        "start_connection",
        "start_tls",
    }
)
ALLOWED = {
    ("http/dialing.py", "start_connection"),
    ("http/call.py", "connect"),  # `HttpConnections.connect`
    ("http/connection.py", "create_connection"),  # on the socket that `dial` returned
}
CLIENTS = frozenset({"aiohttp", "http", "httpx", "httpx2", "requests", "urllib3"})


def connecting(module: ast.Module) -> set[str]:
    """The names of functions that connect, as a module calls them."""
    calls = [node.func for node in ast.walk(module) if isinstance(node, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]
    return CONNECTS.intersection(names)


def clients(module: ast.Module) -> set[str]:
    """The HTTP clients that a module imports."""
    names: list[str] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return {name for name in names if name.split(".")[0] in CLIENTS or name.startswith("urllib.request")}


def test_executors_connect_in_one_module() -> None:
    executors = modules(SRC / "executors")
    assert {(path, name) for path, module in executors.items() for name in connecting(module)} == ALLOWED
    assert {path: found for path, module in executors.items() if (found := clients(module))} == {}
    (made,) = [
        node
        for node in ast.walk(executors["http/connection.py"])
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".create_connection")
    ]
    assert [ast.unparse(each.value) for each in made.keywords if each.arg == "sock"] == ["connected"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("await asyncio.open_connection('127.0.0.1', 80)", {"open_connection"}),
        ("socket.create_connection(place)", {"create_connection"}),
        ("from socket import create_connection\ncreate_connection(place)", {"create_connection"}),
        ("await loop.sock_connect(sock, place)", {"sock_connect"}),
        ("sock.connect(place)", {"connect"}),
    ],
)
def test_another_way_to_connect_would_be_found(code: str, found: set[str]) -> None:
    assert connecting(ast.parse(code)) == found


def test_an_http_client_would_be_found() -> None:
    assert clients(ast.parse("import aiohttp\nfrom urllib.request import urlopen\nimport http.client")) == {
        "aiohttp",
        "urllib.request",
        "urllib.request.urlopen",
        "http.client",
    }
