"""All attacks at once: `python -m tests.soak.attack CASE.json`, run under `nice`.

The case names the server, the keys of two authenticated attackers (an editor of jobs and a worker), an HTTP target that
answers badly, and how long it takes. Every attack is a loop with a pause, bounded in time. The last line printed is
JSON: how often each attack got which answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.support import strangers

STRANGERS = 1_000
FOLLOWERS = 60
TIMEOUT = 30.0
"""Seconds for one request."""
MAX_ROUNDS = 10
"""How often an attack is repeated that got no answer: a phase of a few seconds may be too short on a busy machine."""

DENSE = [{"cron": f"{n % 60} * * * *", "for": f"{1 + n % 50}m"} for n in range(250)]
WEEKLY = [{"cron": f"{n % 60} {n % 24} * * {n % 7}", "for": "1m", "reason": f"window {n}"} for n in range(100)]


class Attackers:
    """Shared by all attacks of one phase."""

    def __init__(self, case: dict[str, Any], http: aiohttp.ClientSession, answers: Counter[str]) -> None:
        self.url, self.target, self.phase = case["url"], case["target"], case["phase"]
        self._keys = {"editor": case["editor"], "worker": case["worker"], "none": "k" * 40}
        self._http = http
        self._answers = answers

    async def send(
        self, attack: str, method: str, path: str, body: object = None, *, key: str = "editor", raw: bytes | None = None
    ) -> Any:
        """The decoded answer, counted by its status."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._keys[key]}", "Content-Type": "application/json"}
        try:
            async with self._http.request(method, self.url + path, data=data, headers=headers) as answer:
                text = await answer.text()
                self._answers[f"{attack} {answer.status}"] += 1
                return json.loads(text) if text.startswith(("{", "[")) else text
        except (aiohttp.ClientError, TimeoutError) as error:
            self._answers[f"{attack} {type(error).__name__}"] += 1
            return {}

    async def job(self, attack: str, task: dict[str, Any], **more: Any) -> Any:
        job = {"task": task, "timeout": "5s", "retry": {"maxRetries": 1, "backoff": ["1s"]}, "tags": [attack], **more}
        return await self.send(attack, "POST", "/v1/jobs", job)


Attack = Callable[[Attackers, int], Awaitable[object]]
ATTACKS: dict[str, tuple[float, Attack]] = {}
"""By name, with the pause in seconds between two rounds."""


def attack(pause: float) -> Callable[[Attack], Attack]:
    def register(function: Attack) -> Attack:
        ATTACKS[function.__name__] = (pause, function)
        return function

    return register


# --- requests that cost the server much ---------------------------------------------------------------------------


@attack(pause=1.0)
async def dense_calendar(by: Attackers, turn: int) -> None:
    await by.send("dense_calendar", "PUT", f"/v1/calendars/dense-{turn % 5}", {"entries": DENSE})


@attack(pause=2.0)
async def heavy_calendar(by: Attackers, turn: int) -> None:
    name = f"heavy-{turn % 3}"
    zone = ("UTC", "Europe/Berlin", "Australia/Lord_Howe")[turn % 3]
    await by.send("heavy_calendar", "PUT", f"/v1/calendars/{name}", {"timezone": zone, "entries": WEEKLY})
    if turn < 3:
        schedule = {"type": "cron", "expression": "* * * * *", "timezone": zone}
        await by.job("heavy_calendar", {"kind": "python", "function": "soak.tick"}, schedule=schedule, calendars=[name])


@attack(pause=2.0)
async def backfill_dry_run(by: Attackers, turn: int) -> None:
    found = await by.send("backfill_dry_run", "GET", "/v1/jobs?tag=heavy_calendar&limit=1")
    for job in found.get("items", []):
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z", "dryRun": True}
        await by.send("backfill_dry_run", "POST", f"/v1/jobs/{job['jobId']}/backfill", body)
        await by.send("backfill_dry_run", "GET", f"/v1/jobs/{job['jobId']}/next?count=1000")
        await by.send("backfill_dry_run", "GET", f"/v1/jobs/{job['jobId']}/why")


@attack(pause=1.0)
async def previews(by: Attackers, turn: int) -> None:
    body = {"schedule": {"type": "cron", "expression": "0 0 29 2 1", "timezone": "Africa/Casablanca"}, "count": 100}
    await by.send("previews", "POST", "/v1/schedules:preview", body)
    await by.send("previews", "GET", "/v1/forecast")


@attack(pause=1.0)
async def wrong_zones(by: Attackers, turn: int) -> None:
    jobs = [_python("soak.tick", _cron(f"Europe/Berlim{n}")) for n in range(500)]
    await by.send("wrong_zones", "POST", "/v1/jobs:batch", jobs)


@attack(pause=4.0)
async def large_batches(by: Attackers, turn: int) -> None:
    """Refused jobs, so that nothing piles up: 16 MiB of array, then of lines."""
    job = json.dumps({**_python("soak.tick"), "parameters": {"text": "x" * 4_000}, "priority": "none"}).encode()
    await by.send("large_batches", "POST", "/v1/jobs:batch", raw=b"[" + b",".join([job] * 4_000) + b"]")
    await by.send("large_batches", "POST", "/v1/jobs:batch", raw=b"\n".join([job] * 4_000))


@attack(pause=1.0)
async def hostile_bodies(by: Attackers, turn: int) -> None:
    deep = b'{"task":' + b"[" * 500_000
    wide = json.dumps({**_python("soak.tick"), "parameters": {f"key {n}": n for n in range(40_000)}, "no": 1}).encode()
    escapes = b'{"name": "' + b"\\u0041" * 150_000 + b'"}'
    for raw in (deep, wide, escapes, b"\xff\xfe" * 100_000):
        await by.send("hostile_bodies", "POST", "/v1/jobs", raw=raw)


@attack(pause=3.0)
async def large_lists(by: Attackers, turn: int) -> None:
    if turn < 5 and by.phase == 1:
        job = _python("soak.tick", {"type": "date", "expression": "2099-01-01T00:00:00Z"})
        job |= {"parameters": {"text": "x" * 900_000}, "tags": ["large"]}
        await by.send("large_lists", "POST", "/v1/jobs", job)
    await by.send("large_lists", "GET", "/v1/jobs?tag=large&limit=500")
    await by.send("large_lists", "GET", "/v1/runs?limit=500")
    await by.send("large_lists", "GET", "/v1/dead-letters?limit=500")
    await by.send("large_lists", "GET", "/openapi.json", key="none")


@attack(pause=5.0)
async def far_future(by: Attackers, turn: int) -> None:
    entries = [{"from": "9999-12-01T00:00", "to": "9999-12-28T00:00"}, {"cron": "0 0 20 12 *", "for": "30d"}]
    await by.send("far_future", "PUT", "/v1/calendars/far", {"entries": entries})
    schedule = {"type": "date", "expression": "9999-12-27T00:00:00Z"}
    await by.job("far_future", {"kind": "python", "function": "soak.tick"}, schedule=schedule, calendars=["far"])


# --- jobs that hurt their worker ----------------------------------------------------------------------------------


@attack(pause=2.0)
async def crafted_output(by: Attackers, turn: int) -> None:
    line = "print('::progress ' + ' ' * 60000 + 'x', flush=True)"
    await by.job("crafted_output", {"kind": "shell", "command": ["python3", "-c", f"for _ in range(50): {line}"]})
    await by.job("crafted_output", {"kind": "shell", "command": "yes flood | head -c 8000000"})


@attack(pause=0.5)
async def odd_outcomes(by: Attackers, turn: int) -> None:
    await by.job("odd_outcomes", {"kind": "python", "function": ("soak.odd_failure", "soak.odd_result")[turn % 2]})


@attack(pause=0.2)
async def odd_answers(by: Attackers, turn: int) -> None:
    path = ("latin", "charset", "retry-after", "refuse", "hang")[turn % 5]
    await by.job("odd_answers", {"kind": "http", "url": f"{by.target}{path}"}, timeout="2s")


@attack(pause=0.2)
async def lookups(by: Attackers, turn: int) -> None:
    await by.job("lookups", {"kind": "http", "url": f"http://hang-{turn}.invalid/"}, timeout="2s")


@attack(pause=2.0)
async def escapes(by: Attackers, turn: int) -> None:
    """Processes that leave their group, and a look at every environment."""
    await by.job("escapes", {"kind": "shell", "command": "setsid sleep 300 & env -i setsid sleep 300 & sleep 1"})
    await by.job("escapes", {"kind": "shell", "command": "cat /proc/*/environ /proc/*/cmdline | head -c 100000"})


# --- workers that lie ---------------------------------------------------------------------------------------------


@attack(pause=0.2)
async def forgeries(by: Attackers, turn: int) -> None:
    workers = await by.send("forgeries", "GET", "/v1/workers")
    runs = await by.send("forgeries", "GET", "/v1/runs?status=running&limit=20")
    for worker in workers.get("items", []):
        session = worker["workerId"]
        await by.send("forgeries", "POST", "/v1/worker/beat", {"session": session, "held": []}, key="worker")
        await by.send("forgeries", "POST", "/v1/worker/goodbye", {"session": session}, key="worker")
        ended = [
            {
                "runId": run["runId"],
                "jobId": run["jobId"],
                "attempt": 1,
                "token": run.get("fencingToken", turn),
                "serial": False,
                "outcome": {"type": "failed", "failure": {"kind": "forged", "message": "forged"}},
                "age": 1,
            }
            for run in runs.get("items", [])
        ]
        report = {"session": session, "pollSeq": 1, "free": 100, "ended": ended}
        await by.send("forgeries", "POST", "/v1/worker/report", report, key="worker")


@attack(pause=2.0)
async def large_reports(by: Attackers, turn: int) -> None:
    hello = {"name": "liar", "slots": 0, "labels": []}
    welcome = await by.send("large_reports", "POST", "/v1/worker/hello", hello, key="worker")
    chunk = {"runId": f"r_{0:028x}", "attempt": 1, "token": 1, "seq": 0, "stream": "stdout", "text": "x" * 60_000}
    report = {"session": welcome.get("session", ""), "pollSeq": 1, "free": 0, "logs": [chunk] * 60}
    await by.send("large_reports", "POST", "/v1/worker/report", report, key="worker")
    raw = json.dumps(report).encode().replace(b'"logs"', b'"x' + b"y" * 8_000_000 + b'":1,"logs"')
    await by.send("large_reports", "POST", "/v1/worker/report", raw=raw, key="worker")
    await by.send("large_reports", "POST", "/v1/worker/goodbye", {"session": welcome.get("session")}, key="worker")


@attack(pause=0.05)
async def wrong_keys(by: Attackers, turn: int) -> None:
    await by.send("wrong_keys", "POST", "/v1/jobs", {"task": {"kind": "shell", "command": "true"}}, key="none")


# --- running ------------------------------------------------------------------------------------------------------


async def followers(by: Attackers, end: float) -> None:
    """Idle connections that wait for the output of a silent job."""
    job = {"task": {"kind": "shell", "command": "sleep 300"}, "timeout": f"{int(end - _now()) + 5}s"}
    created = await by.send("followers", "POST", "/v1/jobs", job)
    await asyncio.sleep(2)
    found = await by.send("followers", "GET", f"/v1/jobs/{created.get('jobId')}/runs")
    for run in found.get("items", [])[:1]:
        await asyncio.gather(
            *(by.send("followers", "GET", f"/v1/runs/{run['runId']}/logs?follow=1") for _ in range(FOLLOWERS))
        )


async def repeat(by: Attackers, name: str, end: float) -> None:
    pause, function = ATTACKS[name]
    turn = 0
    while _now() < end:
        await function(by, turn)
        turn += 1
        await asyncio.sleep(pause)


async def main(case: dict[str, Any]) -> None:
    answers: Counter[str] = Counter()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    connector = aiohttp.TCPConnector(limit=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        by = Attackers(case, http, answers)
        for _ in range(MAX_ROUNDS):
            with contextlib.suppress(TimeoutError):
                await _attack(by, case, answers)
            if answers:
                break
    print(json.dumps(answers))


async def _attack(by: Attackers, case: dict[str, Any], answers: Counter[str]) -> None:
    seconds = case["seconds"]
    end = _now() + seconds
    async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
        for name in ATTACKS:
            group.create_task(repeat(by, name, end))
        group.create_task(followers(by, end))
        port = int(by.url.rpartition(":")[2])
        for number in range(case.get("strangers", STRANGERS)):
            kind = strangers.KINDS[number % len(strangers.KINDS)]
            group.create_task(strangers.bother(port, kind, seconds, answers))
            if number % 50 == 49:
                await asyncio.sleep(0.1)


def _python(function: str, schedule: dict[str, Any] | None = None) -> dict[str, Any]:
    job: dict[str, Any] = {"task": {"kind": "python", "function": function}}
    return job if schedule is None else {**job, "schedule": schedule}


def _cron(zone: str) -> dict[str, Any]:
    return {"type": "cron", "expression": "0 0 2 * * *", "timezone": zone}


def _now() -> float:
    return asyncio.get_running_loop().time()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
