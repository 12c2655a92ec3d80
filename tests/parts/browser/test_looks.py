"""Every page in both themes and on a phone: accessible, as wide as the window, and reachable by its address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.parts.browser.axe import grave_violations
from tests.parts.browser.chromium import PHONE, Profile, overflow
from tests.parts.browser.demo import Demo
from tests.parts.browser.pages import PAGES, await_data, open_page, routes_without

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600), pytest.mark.xdist_group("browser-demo")]


def test_every_page_of_the_router_is_tested() -> None:
    assert routes_without(PAGES.values()) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible_and_the_same_after_a_reload(
    demo: Demo, open_profile: Callable[..., Profile], theme: str
) -> None:
    profile = open_profile(dark=theme == "dark")
    page = profile.sign_in(demo.api)
    found: dict[str, list[str]] = {}
    for name in PAGES:
        open_page(page, demo, name)
        if violations := grave_violations(page):
            found[name] = violations
        if theme == "light":
            before = _face(page)
            page.reload()
            await_data(page)
            assert _face(page) == before, name
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert overflow(page) == 0, name
    assert not found, "\n".join(f"{name}: {text}" for name, texts in found.items() for text in texts)


def _face(page: Any) -> tuple[str, str, str]:
    return page.url, page.title(), page.locator("main h1").first.inner_text()


def test_the_sign_in_page_is_accessible(demo: Demo, open_profile: Callable[..., Profile]) -> None:
    for dark in (False, True):
        page = open_profile(dark=dark).tab()
        page.goto(f"{demo.api.url}/jobs")
        page.wait_for_url("**/sign-in?next=*")
        page.get_by_label("API key").wait_for()
        assert grave_violations(page) == []


def test_no_page_is_wider_than_a_phone(demo: Demo, open_profile: Callable[..., Profile]) -> None:
    page = open_profile(size=PHONE).sign_in(demo.api)
    wide = {}
    for name in PAGES:
        open_page(page, demo, name)
        if found := overflow(page):
            wide[name] = found
        if found := page.evaluate("(main => main.scrollWidth - main.clientWidth)(document.querySelector('main'))"):
            wide[f"main of {name}"] = found
    assert wide == {}


def test_a_page_that_is_opened_without_a_session_is_shown_after_sign_in(demo: Demo, profile: Profile) -> None:
    page = profile.tab()
    page.goto(f"{demo.api.url}/runs?status=dead")
    page.get_by_label("API key").fill(demo.api.http.headers["Authorization"].removeprefix("Bearer "))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs?status=dead")
    page.get_by_role("table", name="Runs").wait_for()
