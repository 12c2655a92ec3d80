"""Hooks of the site (`properdocs.yml`): pages of the repository's root become pages of the site, and links lead there.

Links to files that the site does not have, such as source files, become their text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
ROOT_PAGES: Final = {
    "ARCHITECTURE.md": "project/architecture.md",
    "GLOSSARY.md": "project/glossary.md",
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "project/examples.md",
}
"""Pages outside of `docs`, and where they are on the site."""
ELSEWHERE: Final = {"README.md": "index.md"}
TUTORIAL: Final = ["first-job", "failing-job", "schedule", "fleet"]

_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_CODE: Final = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """The navigation: pages in the order in which they are read, and whatever is in `docs/design`."""
    config["nav"] = [
        {"Home": "index.md"},
        {"Tutorial": [f"tutorial/{name}.md" for name in TUTORIAL]},
        {"Guides": _pages("howto")},
        {"Reference": _pages("reference")},
        {"Explanation": _pages("explanation")},
        *([{"Design": _pages("design")}] if _pages("design") else []),
        {"Project": [place for name, place in ROOT_PAGES.items() if (ROOT / name).exists()]},
    ]
    return config


def _pages(folder: str) -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / folder).rglob("*.md"))


def on_files(files: Any, config: Any) -> Any:
    from properdocs.structure.files import File

    for name, place in ROOT_PAGES.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, place, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, place: str) -> str:
    """The text of a page that is at `place` on the site."""
    origins = {place_of: name for name, place_of in ROOT_PAGES.items()}
    source = origins.get(place, f"docs/{place}")

    def replace(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = ROOT_PAGES.get(meant) or ELSEWHERE.get(meant)
        if on_site is None and meant.startswith("docs/"):
            on_site = meant.removeprefix("docs/")
        if on_site is None and (ROOT / meant).exists():
            return text  # a file of the repository that is no page
        if on_site is None:
            return found[0]  # dead: the build says so
        return f"{image}[{text}]({posixpath.relpath(on_site, posixpath.dirname(place) or '.')}{hash_sign}{anchor})"

    parts = _CODE.split(markdown)
    hidden = parts[1::2]  # code stays as it is, also inside the text of a link
    marked = "".join(part if index % 2 == 0 else f"\x00{index // 2}\x00" for index, part in enumerate(parts))
    linked = _LINK.sub(replace, marked)
    return re.sub("\x00(\\d+)\x00", lambda found: hidden[int(found[1])], linked)
