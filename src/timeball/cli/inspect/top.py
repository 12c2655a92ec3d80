"""`timeball top`: a live view of the fleet in a terminal."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import click

from timeball.cli.session import CliSession, connected
from timeball.domain.errors import TimeballError, Unavailable

if TYPE_CHECKING:
    from rich.console import Console

    from timeball.cli.inspect.top_view import Snapshot
    from timeball.client.client import Client

POLL: Final = 2.0
"""Maximum age of the view in seconds: it is read again at the latest after this time, also without events."""
SHORTEST: Final = 0.5
"""Minimum number of seconds between two reads, however many events arrive."""
MAX_RUNNING: Final = 100


@click.command()
@connected
def top(session: CliSession) -> None:
    """Show a live view: throughput, lateness, queues, running runs, workers, what needs attention, and what fires next.

    Keys: q quits, p pauses and resumes, s changes the order of the running runs. The view is read again when
    the stream of events reports a change, and at least every two seconds. In a pipe, one snapshot is printed.
    """
    from rich.console import Console

    from timeball.cli.inspect.top_view import Shown, view

    console = Console()
    if not session.output.pretty or not console.is_terminal:
        width = console.width if console.is_terminal else 100
        Console(width=width).print(view(_read(session.client), Shown(), width, 60))
        return
    _live(session, console)


def _read(client: Client) -> Snapshot:
    from datetime import UTC, datetime
    from itertools import islice

    from timeball.cli.inspect.top_view import Snapshot
    from timeball.domain.instant import SECOND
    from timeball.system import wall

    running = list(islice(client.runs(status="running"), MAX_RUNNING))
    now = datetime.fromtimestamp(wall() / SECOND, UTC)
    return Snapshot(client.stats("5m"), running, client.workers(), now)


def _live(session: CliSession, console: Console) -> None:
    from msgspec.structs import replace
    from rich.live import Live

    from timeball.cli.inspect.top_view import ORDERS, Shown, view
    from timeball.system import monotonic

    changes = _Changes(session)
    shown, orders, found = Shown(), list(ORDERS), _read(session.client)
    read_at = monotonic()
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        changes.start()
        while True:
            live.update(view(found, shown, console.width, console.height), refresh=True)
            match key(SHORTEST):
                case "q" | "\x03":
                    return
                case "p":
                    shown = replace(shown, paused=not shown.paused)
                case "s":
                    shown = replace(shown, order=orders[(orders.index(shown.order) + 1) % len(orders)])
                case _:  # no key
                    pass
            age = (monotonic() - read_at) / 1_000_000
            if shown.paused or not (age >= POLL or (age >= SHORTEST and changes.seen())):
                continue
            read_at = monotonic()
            try:
                found = _read(session.client)
                shown = replace(shown, note="" if changes.connected else "polling")
            except Unavailable:
                shown = replace(shown, note="no server answers")


class _Changes:
    """Follows the stream of events in a daemon thread, to notice that the view has to be read again."""

    def __init__(self, session: CliSession) -> None:
        self._session = session
        self._seen = threading.Event()
        self.connected = True

    def start(self) -> None:
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            try:
                with self._session.another_client() as client:
                    for _ in client.events():
                        self.connected = True
                        self._seen.set()
            except Unavailable:
                self.connected = False
            except TimeballError:  # this key may not follow events
                self.connected = False
                return

    def seen(self) -> bool:
        """True if an event has arrived since the last call."""
        seen = self._seen.is_set()
        self._seen.clear()
        return seen


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Put the terminal into a mode in which keys arrive without Enter. Yield a function that returns the next key, or
    an empty text if none is pressed within the given seconds."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file)

    def key(seconds: float) -> str:
        ready, _, _ = select.select([file], [], [], seconds)
        return os.read(file, 1).decode(errors="replace") if ready else ""

    try:
        yield key
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
