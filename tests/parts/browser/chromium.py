"""Chromium with a profile of its own. It records what no page of Timeball may do, such as a request to another host."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.parts.catalog import require
from tests.support.processes import Api

TIMEOUT_SECONDS = 60
"""For every condition that a test waits for. It is generous, for machines that are busy with other work."""
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
REPORT_VIOLATIONS = """
addEventListener('securitypolicyviolation', event =>
    console.error('CSP violation:', event.violatedDirective, event.blockedURI, event.sourceFile, event.sample))
"""
DESKTOP = (1440, 900)
PHONE = (390, 844)
WIDE = (2560, 1440)


@contextlib.contextmanager
def starting_playwright() -> Iterator[Any]:
    """Start Playwright. While it runs, no other event loop can run in this thread."""
    require("chromium")
    folder = str(require("playwright"))
    if folder not in sys.path:
        sys.path.append(folder)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


class Profile:
    """One Chromium with a user data folder that is empty at first. Its tabs share cookies and one event connection."""

    def __init__(
        self, playwright: Any, *, size: tuple[int, int] = DESKTOP, dark: bool = False, scale: float = 1
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="timeball-browser-", ignore_cleanup_errors=True)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        """`METHOD address` of every request of a tab, in order. Those of the shared worker are not among them."""
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.context = playwright.chromium.launch_persistent_context(
            self._folder.name,
            executable_path=require("chromium"),
            args=[*ARGUMENTS, *as_root],
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            device_scale_factor=scale,
            locale="en-GB",
            timezone_id="Europe/Berlin",
        )
        self.context.set_default_timeout(TIMEOUT_SECONDS * 1000)
        self.context.add_init_script(REPORT_VIOLATIONS)
        self.context.on("console", self._hear_console)
        self.context.on("weberror", lambda error: self.complaints.append(f"uncaught error: {error.error}"))
        self.context.on("request", self._see_request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.context.close()
        self._folder.cleanup()

    @property
    def tabs(self) -> list[Any]:
        return list(self.context.pages)

    def tab(self) -> Any:
        """The first tab, if it is empty, and else another one."""
        first = self.tabs[0] if self.tabs else None
        return first if first is not None and first.url == "about:blank" else self.context.new_page()

    def close_tabs(self) -> None:
        """Leave every page. The browser stays open, with an empty tab."""
        self.context.new_page()
        for tab in self.tabs[:-1]:
            tab.close()

    def sign_in(self, api: Api) -> Any:
        """Open the one-time link, and return the tab when the overview shows data."""
        page = self.tab()
        page.goto(api.call("POST", "/v1/sign-in-links", expect=201)["url"])
        page.get_by_role("heading", name="Overview", exact=True).wait_for()
        page.get_by_text("Up next").wait_for()
        return page

    def _hear_console(self, message: Any) -> None:
        text = message.text
        if "CSP violation" in text or "Content Security Policy" in text:
            self.complaints.append(text)

    def _see_request(self, request: Any) -> None:
        self.requests.append(f"{request.method} {request.url}")
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in ("127.0.0.1", "localhost"):
            self.complaints.append(f"request to another host: {request.url}")


def is_live(page: Any) -> None:
    """Wait until the page is connected to the events."""
    page.get_by_role("status").filter(has_text="Live").first.wait_for(state="attached")


def overflow(page: Any) -> int:
    """How many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def save_picture(page: Any, path: Path) -> None:
    page.screenshot(path=path, animations="disabled")
