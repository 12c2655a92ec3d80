"""Clients of the event stream, in a process of their own: so that what they cost is not counted as the server's.

python -m bench.listeners PORT COUNT [--deaf]
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench.deployment import KEY, Deployment, Trouble

BUFFER_BYTES = 1 << 18
READY = b"ready\n"


@contextlib.contextmanager
def listening(running: Deployment, count: int, *, deaf: bool = False) -> Iterator[None]:
    """So many separate listeners; `deaf` ones never read."""
    port = urlsplit(running.url).port
    command = [sys.executable, "-m", "bench.listeners", str(port), str(count), *(["--deaf"] if deaf else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != READY:
            raise Trouble("the listeners did not connect")
        yield
        if process.poll() is not None:
            raise Trouble("the listeners ended early")
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def main(port: int, count: int, deaf: bool) -> int:
    request = f"GET /v1/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    selector = selectors.DefaultSelector()
    plugs: list[socket.socket] = []
    for _ in range(count):
        plug = socket.create_connection(("127.0.0.1", port))
        plug.sendall(request)
        if b"200 OK" not in plug.recv(1_000):
            return 1
        plugs.append(plug)
        if not deaf:
            selector.register(plug, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return 0
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(BUFFER_BYTES):
                return 1
        time.sleep(0.05)  # what arrives together is read together


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), "--deaf" in sys.argv))
