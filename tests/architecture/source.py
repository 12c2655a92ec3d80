"""The source, as the guards of this folder read it: paths below `src/timeball`, and parsed modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/timeball"


@cache
def modules(folder: Path = SRC) -> dict[str, ast.Module]:
    """Every module below a folder, by its path there."""
    return {path.relative_to(folder).as_posix(): parse(path) for path in sorted(folder.rglob("*.py"))}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def folders(root: Path = SRC) -> dict[str, list[Path]]:
    """The files of every folder below `root`, by the folder's path there."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found.setdefault(path.parent.relative_to(root).as_posix(), []).append(path)
    return found


def only_listed(found: Iterable[str], listed: Mapping[str, str]) -> None:
    """Fail where something breaks a rule without being listed, and where something is listed without need."""
    broken = set(found)
    wrong = [
        *(f"{each}: not allowed, and not listed" for each in sorted(broken - listed.keys())),
        *(f"{each}: listed ({listed[each]}) without need; remove the row" for each in sorted(listed.keys() - broken)),
    ]
    if wrong:
        raise AssertionError("\n".join(["", *wrong]))
