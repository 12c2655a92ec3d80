"""`make parts`: install the parts that are missing. It asks first, unless `CI=true`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.parts import catalog
from tests.parts.catalog import Part


def main() -> int:
    if missing := _missing():
        print(f"Parts that are missing in {catalog.FOLDER}:")
        for part in missing:
            print(f"  {part.name}: {part.purpose}, {part.size}")
        if not (catalog.is_ci() or _agreed()):
            print("Nothing was installed. Tests that need these parts are skipped.")
            return 1
        _install(missing)
    if missing := _missing():
        print(f"Not installed: {', '.join(part.name for part in missing)}.")
        return 1
    catalog.FOLDER.mkdir(exist_ok=True)
    catalog.INSTALLED.touch()
    print(f"All parts are installed: {', '.join(catalog.PARTS)}.")
    return 0


def _missing() -> list[Part]:
    return [part for part in catalog.PARTS.values() if part.find() is None]


def _agreed() -> bool:
    try:
        return input("Download and install them? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _install(missing: Sequence[Part]) -> None:
    """One that fails leaves the others installed."""
    for install in dict.fromkeys(part.install for part in missing):
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(error)


if __name__ == "__main__":
    sys.exit(main())
