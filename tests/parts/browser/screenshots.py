"""`make screenshots`: a picture of every page in `build/screenshots`, in both themes, on a phone, on a desktop and on a
wide screen."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.parts.browser.chromium import DESKTOP, PHONE, WIDE, Profile, is_live, save_picture, starting_playwright
from tests.parts.browser.demo import running_demo
from tests.parts.browser.pages import PAGES, open_page

FOLDER = Path(__file__).parents[3] / "build/screenshots"
SIZES = {"desktop": DESKTOP, "phone": PHONE, "wide": WIDE}


def main(names: list[str]) -> None:
    """Names select some of the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_demo(Path(folder)) as demo, starting_playwright() as started:
        for size, pixels in SIZES.items():
            for theme in ("light", "dark"):
                with Profile(started, size=pixels, dark=theme == "dark") as profile:
                    page = profile.sign_in(demo.api)
                    for name in names or PAGES:
                        open_page(page, demo, name)
                        is_live(page)
                        save_picture(page, FOLDER / f"{name}-{theme}-{size}.png")
    print(f"The pictures are in {FOLDER}.")


if __name__ == "__main__":
    main(sys.argv[1:])
