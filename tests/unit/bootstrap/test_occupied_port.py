"""A server that cannot listen names the process that holds the port, if the system tells."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from timeball.bootstrap import server as bootstrap_server
from timeball.domain.errors import Conflict


class _Answering(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Answering) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield other.server_port
        other.shutdown()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"status":"alive","version":"0.1.0"}', "a Timeball server already listens on 127.0.0.1"),
        (b"<html>", "stop the other process, or use another --port"),
    ],
)
def test_the_holder_of_the_port_is_named(
    port: int, body: bytes, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answering, "body", body)
    with pytest.raises(Conflict, match=expected), bootstrap_server._listening("127.0.0.1", port):
        pass
