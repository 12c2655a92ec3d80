"""The documentation names the component that acts, and uses no word that hides it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", ROOT / "docs/index.md"]
PAGES += [page for part in ("tutorial", "howto", "explanation") for page in sorted((ROOT / "docs" / part).glob("*.md"))]
WORDS = r"who|whoever|whom|nobody|somebody|anybody|everybody|told|hears?|heard|meanwhile|goes on"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_what_acts(page: Path) -> None:
    assert re.findall(rf"(?i)\b(?:{WORDS})\b", page.read_text("utf-8")) == []
