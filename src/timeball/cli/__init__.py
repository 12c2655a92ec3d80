"""The command line. Heavy modules are imported only when a command needs them, so that `timeball --help` is fast."""

from __future__ import annotations


def main() -> None:
    from timeball.cli.root import timeball

    timeball(prog_name="timeball")
