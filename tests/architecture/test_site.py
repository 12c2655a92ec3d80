"""The documentation site builds without a warning, and no link in it or in the README is dead."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("properdocs", reason="the site generator is not installed: pip install 'timeball[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "properdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            if (tag, name) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")) and value:
                self.links.append(value)


@pytest.mark.xdist_group("site")
def test_no_link_of_the_site_is_dead(site: Path) -> None:
    pages = {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 25
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            lacks_anchor = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            if lacks_anchor or not target.exists():
                dead.append((path.relative_to(site), link))
    assert dead == []


@pytest.mark.xdist_group("site")
def test_the_search_finds_pages_of_every_part(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text("utf-8")
    for part in ("tutorial/", "howto/", "reference/", "explanation/", "project/"):
        assert f'"location":"{part}' in index.replace(": ", ":"), part


@pytest.mark.parametrize("name", ["README.md", "examples/README.md"])
def test_no_link_of_the_readme_is_dead(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^()\s]+)\)", page.read_text("utf-8"))
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
