"""Honest clients of a soak: jobs at a steady rate, and schedules."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from tests.support.processes import Api

LEAD = 2.0
"""Seconds between the submission of a job and its due instant."""
CLIENTS = 4
SHELL_EVERY = 20
SCHEDULES = 10
RETRY_DELAY = 0.1
TAG = "honest"


@dataclass(frozen=True)
class Promised:
    """An accepted job."""

    kind: str
    due: int
    accepted: int
    """Both in microseconds since the epoch."""


@dataclass
class Load:
    """Each job is sent until it is accepted, with one idempotency key."""

    url: str
    rate: float
    witness: Path
    promised: dict[str, Promised] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    schedules: list[str] = field(default_factory=list)
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(CLIENTS)]

    def start(self) -> None:
        with Api(self.url) as api:
            tick = {"kind": "python", "function": "soak.tick"}
            every_second = {"type": "interval", "expression": "1s"}
            job = {"task": tick, "schedule": every_second, "tags": [TAG], "retry": {"maxRetries": 0}}
            self.schedules = [api.create({"name": f"every second {n}", **job}) for n in range(SCHEDULES)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        with Api(self.url) as api:
            for job_id in self.schedules:
                api.call("POST", f"/v1/jobs/{job_id}/pause")
        if self.failure is not None:
            raise self.failure

    def _guarded(self, client: int) -> None:
        try:
            self._submit_all(client)
        except BaseException as error:
            self.failure = error
            self._stopping.set()

    def _submit_all(self, client: int) -> None:
        rate = self.rate / CLIENTS
        began, number = time.monotonic(), 0
        with Api(self.url) as api:
            while not self._stopping.is_set():
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                self._submit(api, f"{client}-{number}", number)
                number += 1

    def _submit(self, api: Api, name: str, number: int) -> None:
        due = int((time.time() + LEAD) * 1e6)
        kind = "shell" if number % SHELL_EVERY == 0 else "python"
        job = {
            "name": name,
            "task": self._task(kind, due),
            "parameters": {"due": due} if kind == "python" else {},
            "schedule": {"type": "date", "expression": _iso(due)},
            "retry": {"maxRetries": 0},
            "delivery": "at_most_once",
            "tags": [TAG],
        }
        while True:
            try:
                answer = api.http.post("/v1/jobs", json=job, headers={"Idempotency-Key": f"{self.url}-{name}"})
            except httpx.TransportError as error:
                self.refusals[type(error).__name__] += 1
            else:
                if answer.status_code == 201:
                    accepted = time.time_ns() // 1_000
                    self.promised[answer.json()["jobId"]] = Promised(kind, due, accepted)
                    return
                if answer.status_code < 500 and answer.status_code != 429:
                    raise AssertionError(f"an honest job was refused: {answer.status_code} {answer.text}")
                self.refusals[str(answer.status_code)] += 1
            time.sleep(RETRY_DELAY)

    def _task(self, kind: str, due: int) -> dict[str, Any]:
        if kind == "python":
            return {"kind": "python", "function": "soak.mark"}
        line = f'echo "$TIMEBALL_JOB_ID $TIMEBALL_ATTEMPT {due} $(date +%s%6N)" >> "{self.witness}"'
        return {"kind": "shell", "command": line}


def _iso(micros: int) -> str:
    return (dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=micros)).isoformat()
