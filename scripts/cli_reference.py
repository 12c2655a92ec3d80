"""The page `docs/reference/cli.md`: every command of `timeball` with its help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from timeball.cli.root import timeball

WIDTH: Final = 100
INTRODUCTION: Final = """\
<!-- Generated from src/timeball/cli by `make reference`. -->
# Commands

Every command of `timeball` with the text that `--help` prints. Settings that several commands share are explained in
[settings](settings.md); the exit codes are in [errors](errors.md#exit-codes).
"""


def page() -> str:
    return INTRODUCTION + "".join(f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in help_texts())


def help_texts() -> Iterator[tuple[str, str]]:
    """The path of each command, and its help."""
    yield from _walk(timeball, "timeball", None)


def _walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        max_content_width=WIDTH,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield context.command_path, text
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _walk(found, each, context)
