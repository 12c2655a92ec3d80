"""Write which tests cite each promise into `docs/design/promises.md`.

A test cites a promise by its number, in a docstring or in the violation that a checker reports. The page is written by
hand, except for the lists of tests between its marks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from scripts.marked_page import fill

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/design/promises.md"
PROMISES = tuple(f"I{number}" for number in range(1, 32))
LEVELS = {
    "unit": "unit",
    "properties": "properties",
    "conformance": "conformance, on both stores",
    "simulation": "simulator",
    "integration": "integration",
    "acceptance": "acceptance, with real processes",
    "soak": "soak",
}
"""Folders of tests in the order of the page, and how the page calls them."""

_CITED = re.compile(r"\bI\d{1,2}\b")


@cache
def tests_by_promise() -> dict[str, list[Path]]:
    """Test modules, and checkers of the simulator, by the promises that they cite."""
    found: dict[str, list[Path]] = defaultdict(list)
    for level in LEVELS:
        for path in sorted((ROOT / "tests" / level).rglob("*.py")):
            if path.name.startswith("test_") or (level == "simulation" and not path.name.startswith("_")):
                for promise in set(_CITED.findall(path.read_text("utf-8"))):
                    found[promise].append(path)
    return found


def page(current: str) -> str:
    found = tests_by_promise()
    return fill(current, {f"tests of {promise}": _list(found[promise]) for promise in PROMISES})


def _list(paths: list[Path]) -> str:
    lines = []
    for level, words in LEVELS.items():
        links = [
            f"[{path.stem}](../../{path.relative_to(ROOT).as_posix()})"
            for path in paths
            if path.relative_to(ROOT / "tests").parts[0] == level
        ]
        if links:
            lines.append(f"- {words}: {', '.join(links)}")
    return "\n".join(lines)


def main() -> None:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
