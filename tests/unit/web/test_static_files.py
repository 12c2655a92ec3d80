"""The files of the web UI, as they are prepared for browsers."""

import gzip
import re
from pathlib import Path

import pytest

from timeball.web.index_page import BASE, NONCE, IndexPage, content_security_policy
from timeball.web.static_files import bundled, read_bundle

MAX_FIRST_LOAD_BYTES = 250_000
MAX_ANSWER_BYTES = 1 << 20


def test_a_file_is_compressed_where_that_saves_something(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/a-1.js").write_text("x" * 10_000)
    (tmp_path / "assets/a-2.woff2").write_bytes(b"x" * 10_000)
    (tmp_path / "small.txt").write_text("small")
    (tmp_path / ".hidden").write_text("hidden")
    files = read_bundle(tmp_path, "/").files
    assert files.keys() == {"assets/a-1.js", "assets/a-2.woff2", "small.txt"}
    script = files["assets/a-1.js"]
    assert script.gzipped is not None
    assert gzip.decompress(script.gzipped) == script.plain
    assert script.content_type == b"text/javascript; charset=utf-8"
    assert [files[name].gzipped for name in ("assets/a-2.woff2", "small.txt")] == [None, None]
    assert [file.is_immutable for file in files.values()] == [name.startswith("assets/") for name in files]


def test_two_reads_of_the_same_files_are_the_same(tmp_path: Path) -> None:
    """Servers behind one address give their files the same tags."""
    (tmp_path / "a.js").write_text("x" * 1_000)
    assert read_bundle(tmp_path, "/").files == read_bundle(tmp_path, "/").files


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    bundle = read_bundle(tmp_path / "missing", "/")
    assert (bundle.files, bundle.index) == ({}, None)


def test_the_page_has_its_base_path_and_a_nonce_everywhere() -> None:
    page = IndexPage(f'<base href="{BASE}"><meta content="{NONCE}"><style nonce="{NONCE}">', "/a&b/")
    assert page.render(b"n1") == b'<base href="/a&amp;b/"><meta content="n1"><style nonce="n1">'
    assert page.render(b"n2") == b'<base href="/a&amp;b/"><meta content="n2"><style nonce="n2">'


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    policy = dict(part.split(" ", 1) for part in content_security_policy(b"abc").decode().split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self' 'nonce-abc'"
    assert policy["frame-ancestors"] == "'none'"
    assert not re.search(r"unsafe|https?:|\*", " ".join(policy.values()))


# --- what is built --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> str:
    text = bundled().joinpath("index.html").read_text("utf-8")
    assert text
    return text


def test_the_built_page_has_the_placeholders_before_any_address(page: str) -> None:
    assert page.index(BASE) < min(found.start() for found in re.finditer(r'(?:src|href)="(?!__)', page))
    assert re.search(rf'<base href="{BASE}" ?/?>', page)
    assert re.search(rf'<meta name="timeball-nonce" content="{NONCE}" ?/?>', page)


def test_the_built_page_has_only_relative_addresses_and_no_inline_script(page: str) -> None:
    addresses = [found for found in re.findall(r'(?:src|href)="([^"]*)"', page) if found != BASE]
    assert addresses
    for address in addresses:
        assert not re.match(r"(?!data:image/)[a-z]+:|//|/", address), address
    for script in re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL):
        assert not script.strip()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)


def test_the_first_load_is_at_most_250_kb_compressed(page: str) -> None:
    files = read_bundle(bundled(), "/").files
    wanted = [found.removeprefix("./") for found in re.findall(r'(?:src|href)="(\.?/?[^"_:]+\.[a-z0-9]+)"', page)]
    assert wanted
    sizes = [len(files[name].gzipped or files[name].plain) for name in wanted]
    assert len(page) + sum(sizes) <= MAX_FIRST_LOAD_BYTES
    assert all(len(file.plain) <= MAX_ANSWER_BYTES for file in files.values())
