"""The web UI over HTTP: every path that may be one of its pages is answered with the page, and browsers may cache its
files."""

import asyncio
import gzip
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.api import running_api
from tests.support.raw_http import Client, get, listening
from timeball.api.sign_in.site import make_site

PAGE = """<!doctype html><html><head><base href="__TIMEBALL_BASE__">
<meta name="timeball-nonce" content="__TIMEBALL_NONCE__"><title>UI</title></head></html>"""
SCRIPT = "console.log('timeball');" * 100
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "sec-fetch-mode": "navigate"}
PREFIX = "https://example.org/timeball"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "manifest.json").write_text("{}")
    (folder / "assets/index-abc.js").write_text(SCRIPT)
    return folder


@asynccontextmanager
async def browsing(folder: Path, files: Path, public_url: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    site = make_site("127.0.0.1", 1300, tls=False, public_url=public_url)
    async with running_api(folder, site=site, static_files=files) as api:
        yield api.client


async def test_the_page_is_served_on_every_path_that_looks_like_one(tmp_path: Path, built: Path) -> None:
    async with browsing(tmp_path, built) as client:
        for path in (
            "/",
            "/index.html",
            "/jobs",
            "/jobs/new",
            "/jobs/j_0/edit",
            "/runs/r.1",
            "/sign-in",
            "/x/y/z",
            "/%2e",
        ):
            answer = await client.get(path, headers=BROWSER)
            assert answer.status_code == 200, path
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["cache-control"] == "no-cache"
            assert "<title>UI</title>" in answer.text
            assert '<base href="/">' in answer.text
        assert (await client.get("/")).status_code == 200, "also for clients that are not browsers"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/nothing", BROWSER, 404),
        ("/v1", BROWSER, 404),
        ("/docs/nothing", BROWSER, 404),
        ("/assets/missing.js", BROWSER, 404),
        ("/assets/", BROWSER, 404),
        ("/missing.js", {"accept": "*/*"}, 404),
        ("/sign-in", {"accept": "application/json"}, 404),
        ("/../timeball.db", {}, 404),
        ("/assets/..%2findex.html", {}, 404),
        ("/v1/jobs", BROWSER, 401),
        ("/jobs", {}, 401),
        ("/jobs", {"accept": "application/json"}, 401),
        ("/livez", BROWSER, 200),
        ("/openapi.json", BROWSER, 200),
    ],
)
async def test_a_path_of_the_api_or_of_a_file_is_no_page(
    tmp_path: Path, built: Path, path: str, headers: dict[str, str], status: int
) -> None:
    async with browsing(tmp_path, built) as client:
        answer = await client.get(path, headers=headers)
        assert answer.status_code == status
        assert "<title>UI</title>" not in answer.text
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"


async def test_only_reads_get_the_page(tmp_path: Path, built: Path) -> None:
    async with browsing(tmp_path, built) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert (await client.request(method, "/runs/x", headers=BROWSER)).status_code == 404
        assert (await client.post("/jobs", headers=BROWSER)).status_code == 401
        head = await client.head("/", headers=BROWSER)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 0


async def test_each_answer_has_a_nonce_of_its_own(tmp_path: Path, built: Path) -> None:
    async with browsing(tmp_path, built) as client:
        nonces = set()
        for _ in range(5):
            answer = await client.get("/", headers=BROWSER)
            (nonce,) = re.findall('name="timeball-nonce" content="([0-9a-f]{32})"', answer.text)
            assert f"style-src 'self' 'nonce-{nonce}';" in answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert "etag" not in answer.headers, "a cached page would have another nonce than its policy"
            nonces.add(nonce)
        assert len(nonces) == 5


@pytest.mark.parametrize("strips", [True, False], ids=["a proxy that removes the prefix", "a proxy that passes it on"])
async def test_a_prefix_behind_a_proxy_works(tmp_path: Path, built: Path, strips: bool) -> None:
    async with browsing(tmp_path, built, PREFIX) as client:

        async def ask(path: str, **headers: str) -> httpx2.Response:
            return await client.get(path if strips else f"/timeball{path}", headers=headers)

        for path in ("/", "/jobs/x", "/jobs"):
            page = await ask(path, **BROWSER)
            assert '<base href="/timeball/">' in page.text
        assert (await ask("/assets/index-abc.js")).text == SCRIPT
        assert (await ask("/v1/jobs")).status_code == 401
        assert (await ask("/v1/jobs/j_0")).status_code == 401
        assert (await ask("/livez")).status_code == 200
        assert (await ask("/openapi.json")).json()["servers"] == [{"url": "/timeball"}]
        assert (await ask("/v1/nothing", **BROWSER)).status_code == 404
        if not strips:
            assert '<base href="/timeball/">' in (await client.get("/timeball", headers=BROWSER)).text
            assert (await client.get("/timeball/timeball/v1/jobs")).status_code == 404
            assert (await client.get("/timeball" * 3_000)).status_code == 404
            assert (await client.get("/timeballs/v1/jobs")).status_code == 404


async def test_without_built_files_the_server_says_how_to_build_them(tmp_path: Path) -> None:
    async with browsing(tmp_path, tmp_path / "missing") as client:
        answer = await client.get("/", headers=BROWSER)
        assert answer.status_code == 404
        assert "make web" in answer.text
        assert (await client.get("/livez")).status_code == 200


# --- over real connections ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
async def test_a_file_is_compressed_tagged_and_kept_for_ever(tmp_path: Path, built: Path, fast: bool) -> None:
    async with running_api(tmp_path, static_files=built) as api, listening(api.app) as house:

        async def ask(path: str, *headers: str) -> Any:
            client = await Client.of(house)
            if not fast:  # two requests at once are handed over to uvicorn
                assert (await client.ask(get("/livez") + get("/livez"))).status == 200
                assert (await client.answer()).status == 200
            answer = await client.ask(get(path, *headers))
            client.close()
            return answer

        plain = await ask("/assets/index-abc.js")
        assert (plain.status, plain.body) == (200, SCRIPT.encode())
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
        assert plain.headers["x-content-type-options"] == "nosniff"
        assert plain.headers["vary"] == "Accept-Encoding"
        zipped = await ask("/assets/index-abc.js", "Accept-Encoding: br, gzip;q=0.8")
        assert zipped.headers["content-encoding"] == "gzip"
        assert gzip.decompress(zipped.body) == SCRIPT.encode()
        assert zipped.headers["etag"] != plain.headers["etag"]
        refused = await ask("/assets/index-abc.js", "Accept-Encoding: gzip;q=0")
        assert refused.body == SCRIPT.encode()
        for first, encoding in ((plain, "identity"), (zipped, "gzip")):
            tag = first.headers["etag"]
            for match in (tag, f"W/{tag}", f'"other", {tag}', "*"):
                same = await ask("/assets/index-abc.js", f"Accept-Encoding: {encoding}", f"If-None-Match: {match}")
                assert (same.status, same.body) == (304, b""), match
                assert same.headers["etag"] == first.headers["etag"]
                assert "content-length" not in same.headers
            other = await ask("/assets/index-abc.js", f"Accept-Encoding: {encoding}", 'If-None-Match: "other"')
            assert other.status == 200
        for path in ("/assets/../index.html", "/assets/../../index.html", "/../../etc/passwd", "//assets/index-abc.js"):
            assert (await ask(path)).status == 404
        manifest = await ask("/manifest.json")
        assert manifest.headers["cache-control"] == "no-cache"
        assert manifest.headers["content-type"] == "application/json"


async def test_the_files_are_read_once_for_many_browsers(tmp_path: Path, built: Path) -> None:
    async with browsing(tmp_path, built) as client:
        pages = await asyncio.gather(*(client.get("/", headers=BROWSER) for _ in range(20)))
        assert {page.status_code for page in pages} == {200}
        shutil.rmtree(built)
        assert (await client.get("/assets/index-abc.js")).text == SCRIPT
