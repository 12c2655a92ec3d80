"""The web UI without a mouse: keys of the pages, the palette, and the focus in every dialog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.parts.browser.axe import grave_violations
from tests.parts.browser.chromium import Profile
from tests.parts.browser.demo import Demo
from tests.parts.browser.pages import await_data, open_page

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600), pytest.mark.xdist_group("browser-demo")]

FOCUS_IS_INSIDE = "() => document.querySelector('[role=\"dialog\"]')?.contains(document.activeElement) ?? false"
FOCUSED = "el => el === document.activeElement"
GO_TO = {
    "j": "/jobs",
    "r": "/runs",
    "w": "/workflows",
    "d": "/dead-letters",
    "c": "/calendars",
    "b": "/backfills",
    "f": "/forecast",
    "k": "/workers",
    "t": "/tasks",
    "y": "/keys",
    "u": "/users",
    "n": "/tenants",
    "a": "/audit-log",
    "e": "/usage",
    "o": "/",
}
MAX_STOPS = 60
"""More stops of the focus than any dialog has."""


def test_all_of_the_way_to_a_run_is_possible_with_keys(demo: Demo, profile: Profile) -> None:
    page = profile.sign_in(demo.api)
    press(page, "g", "j")
    page.wait_for_url("**/jobs")
    page.get_by_role("table", name="Jobs").wait_for()

    press(page, "/")
    page.keyboard.type("sync-orders")
    page.wait_for_url("**/jobs?q=sync-orders")
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    rows.nth(1).get_by_text("sync-orders", exact=True).wait_for()
    page.wait_for_function("() => document.querySelectorAll('[aria-rowindex]').length === 2")

    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    press(page, "j")
    page.locator('[aria-current="true"]').get_by_text("sync-orders").wait_for()
    press(page, "Enter")
    page.wait_for_url("**/jobs/j_*")

    press(page, "g", "r")
    page.wait_for_url("**/runs")
    page.get_by_role("table", name="Runs").get_by_role("row").nth(3).wait_for()
    marks = []
    for key in ("j", "j", "k"):
        press(page, key)
        marked = page.locator('[aria-current="true"]')
        marked.wait_for()
        marks.append(int(marked.get_attribute("aria-rowindex")))
    assert (marks[1] - marks[0], marks[2]) == (1, marks[0])
    press(page, "Enter")
    page.wait_for_url("**/runs/r_*")


def test_g_and_a_letter_leads_to_every_page(demo: Demo, profile: Profile) -> None:
    page = profile.sign_in(demo.api)
    for key, path in GO_TO.items():
        press(page, "g", key)
        page.wait_for_url(f"{demo.api.url}{path}")
        await_data(page)


def test_the_palette_finds_jobs_and_pages(demo: Demo, profile: Profile) -> None:
    page = profile.sign_in(demo.api)
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog")
    palette.get_by_role("combobox").wait_for()
    assert page.evaluate(FOCUS_IS_INSIDE)
    page.keyboard.type("stock-rep")
    palette.get_by_role("option", name="stock-report", selected=True).wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="stock-report").wait_for()

    page.keyboard.press("Control+k")
    page.keyboard.type("dead")
    palette.get_by_role("option", name="Dead letters").wait_for()
    while not palette.get_by_role("option", name="Dead letters", selected=True).count():
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dead-letters")


def test_the_list_of_keys_opens_and_closes(demo: Demo, profile: Profile) -> None:
    page = profile.sign_in(demo.api)
    press(page, "g", "r")
    page.get_by_role("table", name="Runs").wait_for()
    press(page, "?")
    keys = page.get_by_role("dialog", name="Keys")
    for label in ("Find jobs, runs, pages and actions", "Dead letters", "Next row"):
        keys.get_by_text(label, exact=True).wait_for()
    page.keyboard.press("Escape")
    keys.wait_for(state="detached")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


# --- dialogs --------------------------------------------------------------------------------------------------------


def button(name: str) -> Callable[[Any], Any]:
    return lambda page: page.get_by_role("button", name=name, exact=True).first


def through_menu(trigger: str, item: str) -> tuple[Callable[[Any], Any], str]:
    return button(trigger), item


DIALOGS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "keys": ("overview", button("Keys"), ""),
    "palette": ("overview", lambda page: page.get_by_role("button", name=re.compile("Find jobs")), ""),
    "pause": ("job", button("Pause"), ""),
    "cancel-job": ("job", *through_menu("More", "Cancel the job")),
    "backfill": ("job", *through_menu("More", "Backfill a range")),
    "edit-and-retry": ("run-dead", button("Edit and retry"), ""),
    "edit-and-replay": ("run", *through_menu("More", "Edit and replay")),
    "retry-runs": ("runs", *through_menu("Act on all", "Retry all…")),
    "cancel-runs": ("runs", *through_menu("Act on all", "Cancel all…")),
    "replay-runs": ("runs", *through_menu("Act on all", "Replay all…")),
    "retry-letters": ("dead-letters", button("Retry all"), ""),
    "discard-letters": ("dead-letters", button("Discard all"), ""),
    "edit-letters": (
        "dead-letters",
        lambda page: page.get_by_role("article").get_by_role("button", name="Edit").first,
        "",
    ),
    "delete-calendar": ("calendar", button("Delete"), ""),
    "delete-task": ("task", button("Delete"), ""),
    "new-backfill": ("backfills", button("New backfill"), ""),
    "new-key": ("keys", button("New key"), ""),
    "rotate-key": ("keys", button("Rotate"), ""),
    "new-user": ("users", button("New user"), ""),
    "new-tenant": ("tenants", button("New tenant"), ""),
    "change-tenant": ("tenants", button("Change"), ""),
}
"""By name: the page, the button, and the item if the button opens a menu."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_dialog_is_accessible_takes_the_focus_keeps_it_and_gives_it_back(
    demo: Demo, open_profile: Callable[..., Profile], theme: str
) -> None:
    page = open_profile(dark=theme == "dark").sign_in(demo.api)
    wrong = {}
    for name, (where, opener, item) in DIALOGS.items():
        open_page(page, demo, where)
        try:
            _check_dialog(page, opener(page), item)
        except Exception as error:  # also the timeouts of Playwright: the other dialogs are checked nevertheless
            wrong[name] = str(error)
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def _check_dialog(page: Any, opens: Any, item: str) -> None:
    opens.focus()
    page.keyboard.press("Enter")
    if item:
        page.get_by_role("menuitem", name=item).focus()
        page.keyboard.press("Enter")
        page.get_by_role("menu").wait_for(state="detached")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    await_data(page)
    page.wait_for_function(FOCUS_IS_INSIDE)
    violations = grave_violations(page)
    assert violations == []
    _assert_focus_stays(page)
    dialog.focus()
    page.get_by_role("tooltip").wait_for(state="detached")  # Escape would close the tooltip of a button first
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.wait_for_function(FOCUSED, arg=opens.element_handle())


def _assert_focus_stays(page: Any) -> None:
    """Tab visits every control of the dialog, in the order in which they are in it, and begins again."""
    for key in ("Tab", "Shift+Tab"):
        visited = []
        for _ in range(MAX_STOPS):
            page.keyboard.press(key)
            assert page.evaluate(FOCUS_IS_INSIDE), f"{key} leaves the dialog after {visited}"
            place = page.evaluate(
                "[...document.querySelectorAll('[role=\"dialog\"] *')].indexOf(document.activeElement)"
            )
            if place in visited:
                break
            visited.append(place)
        in_order = sorted(visited, reverse=key != "Tab")
        begin = in_order.index(visited[0])
        assert visited == in_order[begin:] + in_order[:begin], key
