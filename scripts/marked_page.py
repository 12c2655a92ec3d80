"""Parts of a page that a script writes, between `<!-- NAME -->` and `<!-- end NAME -->`. The rest is hand-written."""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(page: str, parts: Mapping[str, str]) -> str:
    """The page with each part replaced. A part without its two marks in the page is an error."""
    for name, content in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"the page needs {begin!r} and {end!r} once")
        page = pattern.sub(lambda _, text=f"{begin}\n\n{content}\n\n{end}": text, page)
    return page
