"""A browser signs in at a real OpenID Connect provider, and out, across a rotation of its keys."""

from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import Profile
from tests.parts.oidc_server import running_with_provider, status_of
from tests.support.processes import until


def answer_provider(page: Any, login: str) -> None:
    """Sign in on the page of the provider, and let it give the server the claims that it asks for."""
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def sign_out(page: Any) -> None:
    page.get_by_role("button", name="Account").click()
    page.get_by_text("Role admin, tenant default").wait_for()
    page.get_by_role("menuitem", name="Sign out").click()


@pytest.mark.parts
def test_a_person_signs_in_and_out_at_the_provider(tmp_path: Path, profile: Profile) -> None:
    with running_with_provider(tmp_path) as (provider, api):
        page = profile.tab()
        page.goto(f"{api.url}/workers")
        button = page.get_by_role("button", name="Sign in with Example ID")
        button.click()
        answer_provider(page, "ada")
        page.get_by_role("heading", name="Workers", exact=True).wait_for()
        assert page.url == f"{api.url}/workers", "the page that was opened, without the code"
        assert "code=" not in str(page.evaluate("performance.getEntriesByType('navigation').map(each => each.name)"))

        provider.rotate_keys()
        until(lambda: status_of(api, provider.bearer_token()) == 200, "the new key, within 5 seconds")
        page.reload()
        page.get_by_role("heading", name="Workers", exact=True).wait_for()
        sign_out(page)  # the provider has lost its own session, and asks nothing
        button.click()
        answer_provider(page, "ada")
        page.get_by_role("heading", name="Overview", exact=True).wait_for()

        sign_out(page)
        page.get_by_role("button", name="Yes, sign me out").click()
        button.click()
        answer_provider(page, "mallory")
        page.get_by_role("alert").filter(has_text="Could not sign in").wait_for()
        assert page.url == f"{api.url}/sign-in"


@pytest.mark.parts
def test_a_person_that_refuses_at_the_provider_comes_back_to_the_sign_in_page(tmp_path: Path, profile: Profile) -> None:
    with running_with_provider(tmp_path) as (_, api):
        page = profile.tab()
        page.goto(api.url)
        page.get_by_role("button", name="Sign in with Example ID").click()
        page.get_by_role("link", name="[ Cancel ]").click()
        page.get_by_role("alert").filter(has_text="access_denied").wait_for()
        page.get_by_label("API key").wait_for()
        assert page.url == f"{api.url}/sign-in"
