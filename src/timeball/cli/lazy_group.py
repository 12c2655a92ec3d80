"""Lazy imports: a group that imports a command only when it is called or listed."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group with commands by name, each as `module:attribute`, in the order in which the help lists them."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, str] | None = None,
        instead: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """`instead` has hints for names that users may expect, but that do not exist here."""
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})
        self._instead = dict(instead or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self._lazy[cmd_name]} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"see `{ctx.command_path} --help`"
            raise click.UsageError(f"there is no command {name!r}; {self._instead.get(name, hint)}", ctx)
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def as_if_missing(name: str) -> Iterator[None]:
    """Make the import of a package fail within the block, as if it were not installed. Use it to import another package
    faster that imports this one only if it is installed. If the package is imported already, the block changes
    nothing."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # makes `import` raise
    try:
        yield
    finally:
        del sys.modules[name]
