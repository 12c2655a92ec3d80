"""`timeball clock`: shows the store's time, and accepts the wall clock after a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.lazy_group import LazyGroup
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.workers import StoreClock


@click.group(cls=LazyGroup)
def clock() -> None:
    """Show the store's time, or accept the wall clock after a step."""


@clock.command("show")
@connected
def show(session: CliSession) -> None:
    """Show the store's time, the wall clock, and whether planning is held.

    Planning of an embedded store is held when the wall clock steps ahead by more than an hour. The hold ends when the
    wall clock has agreed with the steady clock of the machine for 60 s, or when it is accepted.
    """
    from timeball.client.requests import workers as requests

    found = session.ask(requests.clock())
    if found is not None:
        _print(session, found)


@clock.command("accept")
@connected
def accept(session: CliSession) -> None:
    """Accept the wall clock: planning resumes at once, and leases and timers move with the step.

    This command never sets the store's time back. For that, restart the server with --accept-clock.
    """
    from timeball.client.requests import workers as requests

    found = session.ask(requests.accept_clock())
    if found is not None:
        _print(session, found)


def _print(session: CliSession, found: StoreClock) -> None:
    session.output.fields(
        [
            ("store time", found.store_time),
            ("wall clock", found.wall_clock),
            ("planning held since", found.planning_held_since),
            ("why", found.why),
        ]
    )
