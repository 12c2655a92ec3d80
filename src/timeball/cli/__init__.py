"""The command line. Nothing heavy is imported before a command needs it: `timeball --help` is an answer, not a wait."""

from __future__ import annotations


def main() -> None:
    from timeball.cli.root import timeball

    timeball(prog_name="timeball")
