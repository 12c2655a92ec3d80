"""The promises page names the tests that prove each promise, and every promise has such a test."""

from __future__ import annotations

import re

import pytest

from scripts import promises


def test_the_page_is_the_one_that_the_tests_yield() -> None:
    current = promises.PAGE.read_text("utf-8")
    assert current == promises.page(current), "run `make reference`"


def test_the_page_has_every_promise_once_and_in_order() -> None:
    headings = re.findall(r"^### (I\d+) ", promises.PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == list(promises.PROMISES)


def test_no_test_cites_a_promise_that_does_not_exist() -> None:
    assert promises.tests_by_promise().keys() <= {*promises.PROMISES}


@pytest.mark.parametrize("promise", promises.PROMISES)
def test_every_promise_has_a_test(promise: str) -> None:
    """A checker of the simulator alone does not count: it reports, and a test has to run it."""
    cited = promises.tests_by_promise()[promise]
    assert [path for path in cited if path.name.startswith("test_")]
