"""A server with the S3 protocol, on a port of its own."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx2


@contextlib.contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """Start the server with an existing bucket, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, address)
        httpx2.put(f"{address}/{bucket}", timeout=60, verify=False).raise_for_status()
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        assert server.poll() is None, "the S3 server ended at once"
        with contextlib.suppress(httpx2.TransportError):
            httpx2.get(f"{address}/moto-api/", timeout=60, verify=False).raise_for_status()
            return
        time.sleep(0.05)
    raise TimeoutError("the S3 server does not answer")
