"""The raw limits: the work of one kind without Timeball, as fast as this machine does it.

python -m bench.kinds.raw shell --seconds 2
python -m bench.kinds.raw http --url http://127.0.0.1:8000/ --target 1234 --seconds 2
python -m bench.kinds.raw process --one-by-one 20

With `--seconds` it repeats the work for so long, as many at the same time as `bench.kinds.catalogue` says. With
`--one-by-one` it does it so often, after a pause each, and measures the time from the call until the work began. It
prints one JSON object, as `bench.kinds.limits` reads it.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import uvloop

from bench import processes
from bench.kinds import tasks
from bench.kinds.catalogue import CONNECTIONS, CORES, START_COMMAND, THREADS

PAUSE = 0.02
"""Seconds before each call of `--one-by-one`."""
WARM_UP = 0.2
"""Seconds."""
BODY, CONTENT = b"{}", {"Content-Type": "application/json"}


class Meter:
    """Measures the wall time and the CPU time of this process, its children, and the target of HTTP calls."""

    def __init__(self, target: int | None) -> None:
        self._target = target

    @contextlib.contextmanager
    def measuring(self) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        before, began = self._cpu(), time.monotonic()
        yield found
        found["seconds"] = time.monotonic() - began
        found["cpu"] = {name: spent - before[name] for name, spent in self._cpu().items()}

    def _cpu(self) -> dict[str, float]:
        own = time.process_time()
        spent = {"caller": own, "children": max(0.0, processes.cpu_seconds(os.getpid(), family=True) - own)}
        return spent if self._target is None else spent | {"target": processes.cpu_seconds(self._target)}


# --- commands and scripts -----------------------------------------------------------------------------------------


def spawn(argv: list[str]) -> bytes:
    """Run a command in its own process group, read its two pipes to the end, and return what it printed."""
    out, out_w = os.pipe()
    err, err_w = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out_w, 1),
        (os.POSIX_SPAWN_DUP2, err_w, 2),
    ]
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setpgroup=0)
    os.close(out_w)
    os.close(err_w)
    printed = _read(out)
    _read(err)
    if os.waitpid(pid, 0)[1] != 0:
        raise RuntimeError(f"{argv[0]} failed")
    return printed


def _read(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65_536):
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts)


def spawning(argv: list[str], seconds: float, meter: Meter) -> dict[str, Any]:
    def repeat(until: float, counts: list[int]) -> None:
        done = 0
        while time.monotonic() < until:
            spawn(argv)
            done += 1
        counts.append(done)

    def in_threads(until: float) -> int:
        counts: list[int] = []
        threads = [threading.Thread(target=repeat, args=(until, counts)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    in_threads(time.monotonic() + WARM_UP)
    with meter.measuring() as found:
        found["done"] = in_threads(time.monotonic() + seconds)
    return found


def program(argv: list[str]) -> list[str]:
    """Return the command with the path of its program."""
    path = shutil.which(argv[0])
    if path is None:
        raise SystemExit(f"{argv[0]} is not in the PATH")
    return [path, *argv[1:]]


# --- HTTP calls ---------------------------------------------------------------------------------------------------


async def call(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.post(url, data=BODY, headers=CONTENT) as answer:
        if answer.status != 200:
            raise RuntimeError(f"the target answered {answer.status}")
        return await answer.read()


async def calling(url: str, seconds: float, meter: Meter) -> dict[str, Any]:
    async def repeat(session: aiohttp.ClientSession, until: float) -> int:
        done = 0
        while time.monotonic() < until:
            await call(session, url)
            done += 1
        return done

    async def on_all_connections(session: aiohttp.ClientSession, until: float) -> int:
        return sum(await asyncio.gather(*(repeat(session, until) for _ in range(CONNECTIONS))))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:
        await on_all_connections(session, time.monotonic() + WARM_UP)
        with meter.measuring() as found:
            found["done"] = await on_all_connections(session, time.monotonic() + seconds)
    return found


# --- functions in processes ---------------------------------------------------------------------------------------


def in_a_pool(seconds: float, meter: Meter) -> dict[str, Any]:
    with concurrent.futures.ProcessPoolExecutor(CORES) as pool:
        jobs, took = 100, 0.0
        while took < WARM_UP:
            jobs, began = jobs * 2, time.monotonic()
            _all(pool, jobs)
            took = time.monotonic() - began
        jobs = max(1, int(jobs / took * seconds))
        with meter.measuring() as found:
            _all(pool, jobs)
        return found | {"done": jobs}


def _all(pool: concurrent.futures.ProcessPoolExecutor, jobs: int) -> None:
    for future in [pool.submit(tasks.nothing_process) for _ in range(jobs)]:
        future.result()


# --- one by one ---------------------------------------------------------------------------------------------------


def one_by_one(calls: int, start: Callable[[], int]) -> dict[str, Any]:
    """Return for each call the time until its work began, in milliseconds."""
    starts = []
    for number in range(calls + 1):
        time.sleep(PAUSE)
        called = time.time_ns()
        began = start()
        if number:  # the first one warms up
            starts.append((began - called) / 1e6)
    return {"starts": starts}


async def one_by_one_async(calls: int, start: Callable[[], Awaitable[int]]) -> dict[str, Any]:
    starts = []
    for number in range(calls + 1):
        await asyncio.sleep(PAUSE)
        called = time.time_ns()
        began = await start()
        if number:
            starts.append((began - called) / 1e6)
    return {"starts": starts}


def starts_of(kind: str, calls: int, url: str, script: str) -> dict[str, Any]:
    match kind:
        case "http":
            return uvloop.run(_http_starts(url, calls))
        case "shell" | "script":
            argv = program(START_COMMAND if kind == "shell" else ["sh", script])
            return one_by_one(calls, lambda: int(spawn(argv).split()[-1]))
        case "process":
            with concurrent.futures.ProcessPoolExecutor(CORES) as pool:
                for _ in range(2 * CORES):
                    pool.submit(tasks.start_process).result()
                return one_by_one(calls, lambda: int(pool.submit(tasks.start_process).result()))
        case _:
            return uvloop.run(_function_starts(kind, calls))


async def _http_starts(url: str, calls: int) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session:

        async def start() -> int:
            return int(await call(session, url))

        return await one_by_one_async(calls, start)


async def _function_starts(kind: str, calls: int) -> dict[str, Any]:
    async def in_thread() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, tasks.start_thread)

    async def in_loop() -> int:
        return await asyncio.get_running_loop().create_task(tasks.start_async())

    return await one_by_one_async(calls, in_thread if kind == "thread" else in_loop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("http", "shell", "script", "async", "thread", "process"))
    parser.add_argument("--seconds", type=float, default=2.0, help="repeat the work for so long")
    parser.add_argument("--one-by-one", type=int, help="instead, do the work so often, one after the other")
    parser.add_argument("--url", default="", help="the target of HTTP calls")
    parser.add_argument("--target", type=int, help="the process id of the target")
    parser.add_argument("--script", default="", help="the path of the script")
    given = parser.parse_args()
    meter = Meter(given.target)
    if given.one_by_one is not None:
        found = starts_of(given.kind, given.one_by_one, given.url, given.script)
    elif given.kind == "http":
        found = uvloop.run(calling(given.url, given.seconds, meter))
    elif given.kind == "process":
        found = in_a_pool(given.seconds, meter)
    elif given.kind in ("shell", "script"):
        found = spawning(program(["true"] if given.kind == "shell" else ["sh", given.script]), given.seconds, meter)
    else:
        parser.error(f"the raw limit of {given.kind} is Timeball itself, see bench/kinds/catalogue.py")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
