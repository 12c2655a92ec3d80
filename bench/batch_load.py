"""A steady stream of batches, which are encoded once and sent repeatedly, so that the load generator needs
little CPU.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench.deployment import KEY, Deployment, Trouble

BATCH = 1_000
CONNECTIONS = 2
IN_FLIGHT = 5_000

NOOP = {"task": {"kind": "python", "function": "bench.noop"}}


class Connection:
    """One connection that is kept open."""

    def __init__(self, running: Deployment, key: str = KEY) -> None:
        parts = urlsplit(running.url)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)

    def post(self, path: str, body: bytes) -> bytes:
        self._connection.request("POST", path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status not in (200, 201) or b'"error"' in content:
            raise Trouble(f"{answer.status}: {content[:1000].decode()}")
        return content

    def close(self) -> None:
        self._connection.close()


class Feeder:
    """Submits no-op jobs in batches while fewer than `in_flight` are not executed yet, and not faster than `rate`."""

    def __init__(
        self,
        running: Deployment,
        *,
        batch: int = BATCH,
        connections: int = CONNECTIONS,
        in_flight: int = IN_FLIGHT,
        rate: float | None = None,
        most: int | None = None,
        key: str = KEY,
    ) -> None:
        self._running = running
        self._key = key
        self._body = json.dumps([NOOP] * batch).encode()
        self._batch = batch
        self._in_flight = in_flight
        self._rate = rate
        self._left = most
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self._sent = 0
        self._threads = [threading.Thread(target=self._feed) for _ in range(connections)]
        self._error: BaseException | None = None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop. When this returns, all batches that were sent have been accepted."""
        self._stopping.set()
        self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _feed(self) -> None:
        connection = Connection(self._running, self._key)
        try:
            while not self._stopping.is_set() and self._left != 0:
                if self._take():
                    connection.post("/v1/jobs:batch", self._body)
                else:
                    time.sleep(0.005)
        except BaseException as error:
            self._error = error
            self._stopping.set()
        finally:
            connection.close()

    def _take(self) -> bool:
        """Return True if this connection may send a batch now."""
        with self._lock:
            if self._left == 0 or self._running.submitted - self._running.executed + self._batch > self._in_flight:
                return False
            if self._rate is not None and self._sent > (time.monotonic() - self._began) * self._rate:
                return False
            if self._left is not None:
                self._left -= self._batch
            self._sent += self._batch
            self._running.submit(self._batch)
            return True


@contextlib.contextmanager
def feeding(running: Deployment, *, rate: float | None = None) -> Iterator[None]:
    feeder = Feeder(running, rate=rate)
    feeder.start()
    try:
        yield
    finally:
        feeder.stop()


def submit(running: Deployment, jobs: int, batch: int = BATCH) -> None:
    """Submit this number of no-op jobs, all due at once, without a limit of jobs in flight."""
    feeder = Feeder(running, batch=batch, in_flight=2 * jobs + running.submitted, most=jobs)
    feeder.start()
    feeder.join()
