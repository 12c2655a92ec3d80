"""Measures how long one request blocks the event loop: every route with its largest valid body, over the worst stored
state.

The requests are those of the stall test, which asserts the CPU time. Here the wall time is shown as well: the time that
every other request waits, on a machine without other work.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

from bench.deployment import Trouble
from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale, say
from tests.support.api import serving
from tests.support.migrated import sqlite_store
from tests.support.postgres import PostgresServer
from tests.support.stall_cases import REDUCED, WHOLE, Size, measured_route, stored
from tests.support.stalls import PROMISED_STALL_SECONDS, TICK_SECONDS, Stall
from timeball import system
from timeball.api.app import ROUTES
from timeball.bootstrap.process import tune_interpreter
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore

SHOWN = 15
"""Number of requests with the longest stalls that are shown."""


def run(scale: Scale) -> Findings:
    notebook = Recorder("stalls", "Stalls: how long one request holds the event loop")
    size = scale.pick(WHOLE, REDUCED)
    with notebook.table(
        f"The {SHOWN} longest: ms between two ticks",
        tick=f"{TICK_SECONDS * 1e3:g} ms",
        large_jobs=size.large_jobs,
        batch=f"{size.batch_bytes >> 20} MiB",
    ) as table:
        for store in scale.stores:
            found: dict[str, Stall] = {}
            for _ in notebook.takes(1):
                found = asyncio.run(_measured(store, size))
            longest = sorted(found.items(), key=lambda item: item[1], reverse=True)
            for name, stall in longest[:SHOWN]:
                table.row(
                    {"store": store, "request": name},
                    {
                        "CPU": Figure(values=[stall.cpu * 1e3], most=PROMISED_STALL_SECONDS * 1e3, digits=1),
                        "wall": Figure(values=[stall.wall * 1e3], digits=1),
                    },
                )
    return notebook.findings()


async def _measured(store: str, size: Size) -> dict[str, Stall]:
    found: dict[str, Stall] = {}
    with contextlib.ExitStack() as stack:
        async with serving(_opened(store, stack)) as api:
            state = await stored(api, size)
            tune_interpreter()
            for route in ROUTES:
                try:
                    stalls = await measured_route(state, route)
                except AssertionError as error:
                    raise Trouble(str(error)) from error
                found |= {f"{route.method} {route.path} {about}".rstrip(): each for about, each in stalls.items()}
            say(f"{store}: {len(found)} requests")
    return found


def _opened(store: str, stack: contextlib.ExitStack) -> Store:
    if store == "sqlite":
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="timeball-bench-"))
        return sqlite_store(Path(folder) / "timeball.db")
    postgres = stack.enter_context(PostgresServer.start(fsync=True))
    return PostgresStore(postgres.create_database(), monotonic=system.monotonic)
