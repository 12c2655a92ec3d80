"""The architecture page is short, and every path and link in it, in the design notes and in related pages exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, SRC

PAGE = ROOT / "ARCHITECTURE.md"
NOTES = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "SECURITY.md")),
    *sorted((ROOT / "docs/design").rglob("*.md")),
]
MAX_WORDS = 900

_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|sql|md|toml|svg)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_TREE = re.compile(r"```\n(src/timeball/\n.*?)```", re.DOTALL)
_MEDIA_TYPES = ("application/", "text/")
_GENERATED = (".parts", "build/")
"""Folders that make creates: a fresh clone has none of them."""
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def test_the_page_has_at_most_900_words() -> None:
    assert len(PAGE.read_text("utf-8").split()) <= MAX_WORDS


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.relative_to(ROOT).as_posix())
def test_every_path_that_a_note_names_exists(note: Path) -> None:
    named = [text for text in _CODE.findall(_FENCED.sub("", note.read_text("utf-8"))) if _PATH.fullmatch(text)]
    paths = [path for path in named if not path.startswith((*_MEDIA_TYPES, *_GENERATED)) and path != "timeball.toml"]
    assert [path for path in paths if not (ROOT / path).exists() and not (SRC / path).exists()] == []


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.relative_to(ROOT).as_posix())
def test_every_link_of_a_note_leads_somewhere(note: Path) -> None:
    broken = []
    for link in _LINK.findall(note.read_text("utf-8")):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (note.parent / path).resolve() if path else note
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_tree_has_every_package_and_nothing_else() -> None:
    found = _TREE.search(PAGE.read_text("utf-8"))
    assert found is not None
    _, *lines = found.group(1).splitlines()
    named: set[str] = set()
    above = ""
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        above, path = (name, name) if depth == 1 else (above, above + name)
        named.add(path)
    assert [path for path in sorted(named) if not (SRC / path).exists()] == []
    assert {f"{path.parent.name}/" for path in SRC.glob("*/__init__.py")} <= named
