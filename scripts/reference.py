"""Writes the generated pages of `docs/reference`, and the manual page, from the code: `make reference`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts import (
    api_reference,
    cli_reference,
    errors_reference,
    log_fields_reference,
    man_page,
    settings_reference,
    tables_reference,
)

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference"

PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_reference.page,
    "api.md": api_reference.page,
    "errors.md": errors_reference.page,
    "cli.md": cli_reference.page,
    "tables.md": tables_reference.page,
    "log-fields.md": log_fields_reference.page,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), "utf-8")
    man_page.PAGE.parent.mkdir(exist_ok=True)
    man_page.PAGE.write_text(man_page.page(), "utf-8")


if __name__ == "__main__":
    main()
