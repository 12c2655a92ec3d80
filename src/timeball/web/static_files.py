"""Reads the built files of the web UI, compresses them, and computes a digest of each for its ETag."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from msgspec import Struct

from timeball.web.index_page import IndexPage

INDEX: Final = "index.html"
ASSETS: Final = "assets/"
"""Files below this folder have the hash of their content in their names, and never change."""
MIN_COMPRESSED_BYTES: Final = 500
"""Minimum size of a file that is compressed. A smaller file fits into one packet."""
_OTHER: Final = b"application/octet-stream"
_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "jpg": b"image/jpeg",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "map": b"application/json",
    "mjs": b"text/javascript; charset=utf-8",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
    "wasm": b"application/wasm",
    "webmanifest": b"application/manifest+json",
    "webp": b"image/webp",
    "woff2": b"font/woff2",
}
_COMPRESSED_ALREADY: Final = {"jpg", "png", "webp", "woff2"}


class StaticFile(Struct, frozen=True):
    content_type: bytes
    plain: bytes
    gzipped: bytes | None
    """The compressed content; None if the file is small, or if compression saves nothing."""
    digest: str
    is_immutable: bool


class Bundle(Struct, frozen=True):
    """The web UI below a base path."""

    files: dict[str, StaticFile]
    """The files by path, without a slash in front."""
    index: IndexPage | None
    """The page `index.html`; None if the web UI was not built."""


def bundled() -> Traversable:
    """Return the folder of the built web UI. It may be missing."""
    return resources.files("timeball.web").joinpath("static")


def read_bundle(folder: Traversable, base_path: str) -> Bundle:
    """Return all files of a folder. This takes some 10 ms for the web UI, most of it for the compression."""
    files = {path: _prepared(path, file.read_bytes()) for path, file in _walk(folder, "")}
    index = files.pop(INDEX, None)
    return Bundle(files, None if index is None else IndexPage(index.plain.decode(), base_path))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            yield f"{prefix}{entry.name}", entry


def _prepared(path: str, plain: bytes) -> StaticFile:
    kind = path.rpartition(".")[2].lower()
    gzipped = None
    if kind not in _COMPRESSED_ALREADY and len(plain) >= MIN_COMPRESSED_BYTES:
        gzipped = gzip.compress(plain, 9, mtime=0)
    return StaticFile(
        content_type=_TYPES.get(kind, _OTHER),
        plain=plain,
        gzipped=gzipped if gzipped is not None and len(gzipped) < len(plain) else None,
        digest=hashlib.sha256(plain).hexdigest()[:32],
        is_immutable=path.startswith(ASSETS),
    )
