"""The files of the web UI, in the form that is sent to browsers."""

import gzip
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from timeball.web.index_page import BASE, NONCE, IndexPage, content_security_policy
from timeball.web.static_files import StaticFile, bundled, read_bundle

MAX_FIRST_LOAD_BYTES = 250_000
MAX_ANSWER_BYTES = 1 << 20
STATIC_IMPORT = re.compile(r"""\b(?:import|from)\s*["'](\.[^"']+)["']""")
"""`import "./a.js"`, `import {a} from "./a.js"` and `export * from "./a.js"`, but not `import("./a.js")`."""
STYLE_IMPORT = re.compile(r"""@import\s+(?:url\()?["']?([^"')\s;]+)""")


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


def first_load(page: str, files: Mapping[str, StaticFile]) -> set[str]:
    """The files that a browser loads before it shows anything: those that the page names, the modules that these
    import at once, and the files that style sheets import."""
    found: set[str] = set()
    open_names = [name for name in re.findall(r'(?:src|href)="([^"]*)"', page) if name != BASE and ":" not in name]
    while open_names:
        name = posixpath.normpath(open_names.pop())
        if name in found:
            continue
        found.add(name)
        text = files[name].plain.decode("utf-8", "replace") if name.endswith((".js", ".css")) else ""
        imports = STATIC_IMPORT.findall(text) if name.endswith(".js") else STYLE_IMPORT.findall(text)
        open_names += [posixpath.join(posixpath.dirname(name), each) for each in imports]
    return found


def test_what_is_loaded_first_is_what_page_modules_and_style_sheets_import() -> None:
    texts = {
        "assets/app-_a.js": b'import{a}from"./shared-1.js";import"./side-2.js";const b=()=>import("./later-3.js")',
        "assets/shared-1.js": b'export*from"./deep-4.js";var f="./none.js"',
        "assets/side-2.js": b"",
        "assets/deep-4.js": b"",
        "assets/later-3.js": b"",
        "assets/app-_5.css": b'@import "./more-6.css";',
        "assets/more-6.css": b"",
    }
    files = {name: StaticFile(b"", text, None, "", True) for name, text in texts.items()}
    page = (
        f'<base href="{BASE}"><link rel="icon" href="data:image/svg+xml,x.y">'
        '<script type="module" src="./assets/app-_a.js"></script><link rel="stylesheet" href="./assets/app-_5.css">'
    )
    assert first_load(page, files) == texts.keys() - {"assets/later-3.js"}


def test_the_first_load_is_at_most_250_kb_compressed(page: str) -> None:
    files = read_bundle(bundled(), "/").files
    wanted = first_load(page, files)
    assert any(name.endswith(".js") for name in wanted)
    assert not {name for name in wanted if not name.startswith("assets/")}
    sizes = {name: len(files[name].gzipped or files[name].plain) for name in wanted}
    assert len(page) + sum(sizes.values()) <= MAX_FIRST_LOAD_BYTES, sizes
    assert all(len(file.plain) <= MAX_ANSWER_BYTES for file in files.values())
