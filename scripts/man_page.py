"""The manual page `docs/man/timeball.1`, from the help of the commands: `make reference`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import timeball
from scripts.cli_reference import help_texts

PAGE: Final = Path(__file__).parents[1] / "docs" / "man" / "timeball.1"


def page() -> str:
    lines = [
        f'.TH TIMEBALL 1 "" "timeball {timeball.__version__}" "Timeball"',
        ".SH NAME",
        "timeball \\- a distributed job scheduler",
    ]
    for path, text in help_texts():
        lines += [f'.SH "{path}"', ".nf", *map(_line, text.splitlines()), ".fi"]
    lines += [
        ".SH FILES",
        ".TP",
        "~/.local/share/timeball",
        "The data folder of a server.",
        ".TP",
        "timeball.toml, ~/.config/timeball/timeball.toml",
        "Settings.",
        ".SH SEE ALSO",
        "The documentation in the folder docs of the source.",
    ]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    """A line of text in which roff finds no request and no escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
