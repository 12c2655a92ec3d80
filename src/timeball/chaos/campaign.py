"""One campaign: start a fleet or use an existing one, submit a known load, cause the planned faults, wait until all
runs have ended, and judge the result."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, json

from timeball import system
from timeball.chaos import checker, evidence, witness
from timeball.chaos.checker import Judgement
from timeball.chaos.fleet import Fleet, is_nearby
from timeball.chaos.history import Fault, History, Kind
from timeball.chaos.load import LEAD, Load
from timeball.chaos.plan import Planned, plan
from timeball.client.async_client import AsyncClient
from timeball.domain.instant import MINUTE, SECOND
from timeball.tasks import NOOP

QUIET_TIMEOUT: Final = 90.0
"""Maximum number of seconds after the last fault until every run has ended: the lease, a minute, and a reserve."""


class Settings(Struct, frozen=True, kw_only=True):
    seconds: float
    seed: int
    fires: int
    """Number of fires per second."""
    every: float
    """Seconds between two faults."""
    kinds: tuple[Kind, ...]
    servers: int = 3
    workers: int = 4
    store: str | None = None
    """The address of a database; None: the campaign starts its own PostgreSQL."""
    plant: str | None = None
    """The name of a planted bug; None: no bug."""
    url: str | None = None
    """The address of an existing fleet; None: the campaign starts one."""
    token: str | None = None
    command: str | None = None
    """The shell command that causes a fault in an existing fleet."""
    keep: str | None = None
    """A folder for the history that was judged and for the logs; None: they are deleted."""


class Outcome(Struct, frozen=True, kw_only=True):
    judgement: Judgement
    faults: list[Fault]
    ledger: dict[str, int]
    """The number of runs with each verdict."""
    accepted: int
    """Number of jobs that were accepted."""
    unanswered: int
    """Number of jobs whose submission was never answered."""
    tries_failed: int
    """Number of submissions that got no answer and were sent again."""
    quiet_after: float | None
    """Seconds from the last fault until every run had ended; None: some runs had not ended after `QUIET_TIMEOUT`."""


class Observer(Protocol):
    """Receives the progress of a campaign."""

    def stage(self, text: str) -> None: ...
    def event(self, seconds: float, text: str) -> None: ...


Break = Callable[[Planned], Awaitable[None]]


async def run(settings: Settings, observer: Observer) -> Outcome:
    async with _staged(settings, observer) as (fleet, client, suffer):
        function = NOOP if fleet is None else witness.FUNCTION
        rng = system.seeded_rng(settings.seed)
        load = Load(client, function, fires=settings.fires, seconds=settings.seconds, rng=rng, timeout=QUIET_TIMEOUT)
        observer.stage(f"submitting jobs for {settings.fires} fires a second")
        await load.begin()
        planned = plan(
            settings.seed,
            settings.kinds,
            seconds=settings.seconds,
            every=settings.every,
            servers=settings.servers,
            workers=settings.workers,
        )
        observer.stage(f"{len(planned)} faults in {settings.seconds:g} s")
        _, faults = await asyncio.gather(load.go_on(), _break(planned, suffer, observer))
        observer.stage("waiting until every run has ended")
        return await _judge(settings, fleet, load, faults, observer)


@contextlib.asynccontextmanager
async def _staged(settings: Settings, observer: Observer) -> AsyncIterator[tuple[Fleet | None, AsyncClient, Break]]:
    """Start a fleet, or use an existing one. Yield the fleet, a client whose connections may have faults as well, and
    the function that causes a fault.
    """
    if settings.url is not None:
        async with AsyncClient(settings.url, settings.token) as client:
            yield None, client, _by_command(settings.command or "true")
        return
    observer.stage(f"starting {settings.servers} servers and {settings.workers} workers")
    fleet = Fleet(servers=settings.servers, workers=settings.workers, store=settings.store, plant=settings.plant)
    async with fleet, AsyncClient(fleet.url, fleet.key, timeout=10.0) as client:
        yield fleet, client, fleet.suffer


def _by_command(command: str) -> Break:
    async def suffer(_: Planned) -> None:
        process = await asyncio.create_subprocess_shell(command)
        await process.wait()

    return suffer


async def _break(planned: list[Planned], suffer: Break, observer: Observer) -> list[Fault]:
    began = system.monotonic()
    faults: list[Fault] = []

    async def one(fault: Planned) -> None:
        await asyncio.sleep(fault.at - (system.monotonic() - began) / SECOND)
        observer.event(fault.at, str(fault))
        since = system.wall()
        await suffer(fault)
        faults.append(Fault(kind=fault.kind, part=fault.part, target=fault.target, began=since, ended=system.wall()))

    await asyncio.gather(*map(one, planned))
    return faults


async def _judge(
    settings: Settings, fleet: Fleet | None, load: Load, faults: list[Fault], observer: Observer
) -> Outcome:
    url, token = (settings.url, settings.token) if fleet is None else (fleet.direct_url, fleet.key)
    since, until = load.began - LEAD - MINUTE, load.began + int(settings.seconds * SECOND) + MINUTE
    async with AsyncClient(url, token) as client:
        quiet_after = await evidence.quiet(client, since, until, load.tag, QUIET_TIMEOUT)
        observer.stage("reading the ledger")
        seen = None if fleet is None else list(witness.sightings(fleet.folder, fleet.worker_pids))
        rows = await evidence.rows(client, load.promises, since, until, seen or ())
        unbalanced = await evidence.unbalanced(client, load.promises)
    observer.stage("judging")
    history = History(
        promises=load.promises,
        rows=rows,
        sightings=seen,
        faults=faults,
        unbalanced=unbalanced,
        same_clock=fleet is not None and is_nearby(settings.store),
    )
    if settings.keep is not None:
        _keep(Path(settings.keep), history, fleet)
    return Outcome(
        judgement=checker.judge(history),
        faults=faults,
        ledger=dict(Counter(row.verdict for row in rows)),
        accepted=len(load.promises),
        unanswered=load.unanswered,
        tries_failed=load.tries_failed,
        quiet_after=quiet_after,
    )


def _keep(folder: Path, history: History, fleet: Fleet | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.json").write_bytes(json.encode(history))
    for log in [] if fleet is None else fleet.folder.glob("*.log"):
        shutil.copy(log, folder)
