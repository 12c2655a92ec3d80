"""axe-core, which finds barriers that keep people from using a page."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.parts.catalog import require

GRAVE = ("serious", "critical")
RUN = """
() => axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(violation => ({
    impact: violation.impact,
    text: `${violation.id}: ${violation.help}`,
    nodes: violation.nodes.slice(0, 5).map(node => node.html.slice(0, 300) + ' ' + (node.any[0]?.message ?? '')),
})))
"""


@cache
def _source() -> str:
    return require("axe-core").read_text("utf-8")


def grave_violations(page: Any) -> list[str]:
    """What is serious or critical on the page as it is now. Nothing moves while it is checked."""
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished.catch(() => null))).then(() => null)")
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_source())
    found = page.evaluate(RUN)
    return [f"{one['text']}\n  " + "\n  ".join(one["nodes"]) for one in found if one["impact"] in GRAVE]
