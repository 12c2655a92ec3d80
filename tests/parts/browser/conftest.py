"""Provides Chromium to each test, and fails the test if a page did what no page of Timeball may do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import Profile, save_picture, starting_playwright
from tests.parts.browser.demo import Demo, running_demo

_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A server with the data of the demo, for tests that only look at it."""
    with running_demo(tmp_path_factory.mktemp("shop"), hours=6) as started:
        yield started


@pytest.fixture
def playwright() -> Iterator[Any]:
    """For one test, because no other event loop can run beside it: a test names fixtures with a loop before it."""
    with starting_playwright() as started:
        yield started


@pytest.fixture
def open_profile(playwright: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Profile]]:
    """Start another Chromium. All end with the test; of a test that failed, pictures of their tabs remain."""
    with contextlib.ExitStack() as opened:
        profiles: list[Profile] = []

        def start(**options: Any) -> Profile:
            profiles.append(opened.enter_context(Profile(playwright, **options)))
            return profiles[-1]

        yield start
        if request.node.stash.get(_failed, False):
            _keep_pictures(profiles, tmp_path)
        complaints = [complaint for profile in profiles for complaint in profile.complaints]
        assert complaints == []


@pytest.fixture
def profile(open_profile: Callable[..., Profile]) -> Profile:
    return open_profile()


def _keep_pictures(profiles: list[Profile], folder: Path) -> None:
    for number, page in enumerate(page for profile in profiles for page in profile.tabs):
        picture = folder / f"tab-{number}.png"
        with contextlib.suppress(Exception):  # the test has failed already
            save_picture(page, picture)
            print(f"{page.url}: {picture}")
