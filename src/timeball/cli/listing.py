"""Lists that are requested page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from timeball.cli.output.output import Column
from timeball.cli.session import CliSession

F = TypeVar("F", bound=Callable[..., Any])


def limits(command: F) -> F:
    command = click.option("--all", "everything", is_flag=True, help="List all items, without a limit.")(command)
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=50,
        show_default=True,
        metavar="N",
        help="Maximum number of items.",
    )(command)


def show(
    session: CliSession,
    page: Callable[[str | None], Any],
    columns: Sequence[Column[Any]],
    *,
    everything: bool,
    nothing: str,
    at_least: int = 0,
) -> None:
    """Print a list: all pages with `everything`; otherwise the first page, and further ones until `at_least` items are
    printed, because a page may be short. If pages are left, say so on stderr on a terminal."""
    if session.output.form == "json":
        show_json(session, page, everything=everything, at_least=at_least)
        return
    more: list[str] = []

    def items() -> Iterator[Any]:
        cursor: str | None = None
        shown = 0
        while True:
            answer = session.client.ask(page(cursor))
            yield from answer.items
            shown += len(answer.items)
            cursor = answer.next_cursor
            if cursor is None:
                return
            if not everything and shown >= at_least:
                more.append(cursor)
                return

    session.output.table(columns, items(), nothing=nothing)
    if more and session.output.pretty:
        click.echo("There are more items: raise --limit, or add --all.", err=True)


def show_json(session: CliSession, page: Callable[[str | None], Any], *, everything: bool, at_least: int = 0) -> None:
    """Print one page of JSON as the server sent it. With `everything` or `at_least`, join pages into one document."""
    import msgspec

    body = session.client.send(page(None))
    if everything or at_least:
        whole = msgspec.json.decode(body)
        while whole.get("nextCursor") is not None and (everything or len(whole["items"]) < at_least):
            following = msgspec.json.decode(session.client.send(page(whole["nextCursor"])))
            whole = {**following, "items": whole["items"] + following["items"]}
        body = msgspec.json.encode(whole)
    session.output.json(body)
