"""Checks of the servers, as a client of this machine sees them: their clocks, versions, loops, workers and work."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec
from msgspec import Struct

import timeball
from timeball import system
from timeball.bootstrap.doctor.finding import Finding, ok, problem, skipped, warning
from timeball.client.client import Client
from timeball.client.http_sync import AnswerInterrupted, HttpTransport, Incoming, Outgoing, Unreachable
from timeball.client.models.registry import Credential
from timeball.client.models.workers import Worker
from timeball.client.requests import workers as requests
from timeball.config import DoctorConfig
from timeball.domain import instant
from timeball.domain.errors import Forbidden, TimeballError, Unauthorized
from timeball.domain.instant import SECOND
from timeball.domain.schedule import zone
from timeball.domain.text import english

MAX_CLOCK_DIFFERENCE: Final = 2 * SECOND
TIMEOUT: Final = 5.0


class _Alive(Struct):
    version: str = ""


class _Ready(Struct):
    detail: str = ""
    degraded: dict[str, str] = {}


def check_servers(config: DoctorConfig) -> Iterator[Finding]:
    transport = HttpTransport(config.ca)
    answering = []
    try:
        for server in config.servers:
            alive = _ask(transport, server, "/livez")
            if not isinstance(alive, Incoming):
                yield alive
                continue
            answering.append(server)
            yield from _version(server, alive)
            yield from _clock(server, alive)
            ready = _ask(transport, server, "/readyz")
            yield from [ready] if not isinstance(ready, Incoming) else _loops(server, ready)
    finally:
        transport.close()
    if not answering:
        yield skipped("workers", "no server answers")
        return
    yield from _beyond_the_key(config, answering[0])


def _ask(transport: HttpTransport, server: str, path: str) -> Incoming | Finding:
    try:
        found = transport.send(server, Outgoing("GET", path, {}, None), TIMEOUT)
    except (Unreachable, AnswerInterrupted) as error:
        if "certificate" in str(error):
            return problem(
                "server", f"the certificate of {server} is not trusted: {error}", "name its authority with --ca FILE"
            )
        return problem(
            "server",
            f"{server} does not answer: {error}",
            "start it (timeball up, or systemctl start), or correct --url, TIMEBALL_URL or the firewall",
        )
    is_alive = path == "/livez"
    try:
        msgspec.json.decode(found.body, type=_Alive if is_alive else _Ready)
    except msgspec.MsgspecError:
        is_known = False
    else:
        is_known = not is_alive or b'"alive"' in found.body
    if is_known:
        return found
    return problem(
        "server",
        f"{server} is not a Timeball server: no server answers {path} like that",
        "correct --url or TIMEBALL_URL, or the proxy that it names",
    )


def _version(server: str, alive: Incoming) -> Iterator[Finding]:
    found = msgspec.json.decode(alive.body, type=_Alive).version
    if found == timeball.__version__:
        yield ok("server", f"{server} answers, version {found}")
        return
    yield warning(
        "version",
        f"{server} has version {found}, and this machine has {timeball.__version__}",
        "install the same version everywhere; during an upgrade, servers come first (docs/howto/fleet.md)",
    )


def _clock(server: str, alive: Incoming) -> Iterator[Finding]:
    try:
        theirs = instant.of(parsedate_to_datetime(alive.headers["date"]))
    except (KeyError, ValueError, TypeError, OverflowError):
        yield skipped("clock", f"{server} does not tell its time")
        return
    ahead = theirs - system.wall()
    if -MAX_CLOCK_DIFFERENCE - SECOND < ahead < MAX_CLOCK_DIFFERENCE:  # the header has no fractions of a second
        yield ok("clock", f"the clocks of this machine and of {server} agree")
        return
    side = "ahead of" if ahead > 0 else "behind"
    yield problem(
        "clock",
        f"the clock of {server} is {english.about(abs(ahead))} {side} the clock of this machine",
        "synchronize the clocks of both with NTP (timedatectl set-ntp true)",
    )


def _loops(server: str, ready: Incoming) -> Iterator[Finding]:
    found = msgspec.json.decode(ready.body, type=_Ready)
    if ready.status != 200:
        yield problem(
            "loops",
            f"{server} is {found.detail or 'not ready'}",
            "read the log of that server; if the store answers and writes, restart the server",
        )
    elif found.degraded:
        failing = ", ".join(f"{name} ({reason})" for name, reason in found.degraded.items())
        yield warning("loops", f"loops of {server} fail that no run needs: {failing}", "read the log of that server")
    else:
        yield ok("loops", f"all loops of {server} succeed")


def _beyond_the_key(config: DoctorConfig, server: str) -> Iterator[Finding]:
    if config.token is None:
        yield problem("key", "no API key is set", "set --token-file or TIMEBALL_TOKEN_FILE to a file with a key")
        return
    ca = None if config.ca is None else str(config.ca)
    with Client(url=server, token=config.token, ca=ca, retries=1) as client:
        try:
            me = client.me()
        except Unauthorized as error:
            yield problem(
                "key",
                f"{server} refuses the API key: {error}",
                "create a key (timeball keys create) and name its file with --token-file or TIMEBALL_TOKEN_FILE",
            )
            return
        except TimeballError as error:
            yield problem("server", f"{server} cannot answer: {error}", "read the log of that server")
            return
        yield from _time_zones(server, me)
        if "read" not in me.permissions:
            yield problem(
                "key",
                f"the API key {me.name!r} has the role {me.role}, which cannot read jobs"
                + ("; a worker can use it" if me.role == "worker" else ""),
                "use a key with the role viewer, operator, editor, admin or system for commands",
            )
            return
        yield ok("key", f"the key {me.name!r} has the role {me.role}")
        try:
            yield from _workers(list(client.workers()), me.server.version)
            yield from _work(client)
            if "system" in me.permissions:
                yield from _planning(client)
        except TimeballError as error:
            hint = "use a key with more permissions" if isinstance(error, Forbidden) else "read the log of that server"
            yield problem("server", f"{server} cannot answer: {error}", hint)


def _time_zones(server: str, me: Credential) -> Iterator[Finding]:
    theirs, ours = me.server.tzdata, zone.version()
    if theirs and theirs != ours:
        yield warning(
            "tzdata",
            f"{server} has time zones of release {theirs}, and this machine has {ours}: fires may differ by an hour",
            "install the same version of the package tzdata everywhere (pip install --upgrade tzdata)",
        )
    else:
        yield ok("tzdata", f"time zones of release {ours}")


def _workers(workers: list[Worker], version: str) -> Iterator[Finding]:
    live = [worker for worker in workers if worker.status in ("live", "draining")]
    if not live:
        yield problem(
            "workers",
            "no worker is connected: runs wait, and none starts",
            "start one: timeball worker --server URL --token-file FILE (or timeball up on one machine)",
        )
        return
    if all(worker.status == "draining" for worker in live):
        yield problem(
            "workers",
            f"all workers are draining ({', '.join(worker.name for worker in live[:5])}): no run starts",
            "start workers anew; a draining worker ends with its last run and does not come back by itself",
        )
    else:
        yield ok("workers", f"{len(live)} connected")
    others = [worker for worker in live if worker.version != version]
    if others:
        shown = ", ".join(f"{worker.name} ({worker.version})" for worker in others[:5])
        yield warning(
            "worker-version",
            f"the server has version {version}, and these workers another one: {shown}",
            "upgrade them; new kinds of tasks and settings need workers of the same version",
        )


def _work(client: Client) -> Iterator[Finding]:
    stuck = [item for item in client.stats().attention if item.kind == "unplaceable"]
    for item in stuck:
        yield problem(
            "work",
            f"job {item.job_name or item.job_id}: {item.message}",
            f"start a worker that meets the requirements, or change the job; `timeball why {item.run_id}` explains it",
        )
    if not stuck:
        yield ok("work", "every due run has a worker that can execute it")


def _planning(client: Client) -> Iterator[Finding]:
    clock = client.ask(requests.clock())
    if clock.planning_held_since is not None:
        yield problem(
            "planning",
            f"planning is held because the wall clock of the server stepped ahead: {clock.why}",
            "set the clock, or accept it: timeball clock accept",
        )
    else:
        yield ok("planning", "the planner plans")
