"""A copy of the source with a small change: counts the files that such a change touches, and checks that it works.

A patch is a TOML file. Each `[[insert]]` has a `file` below `src/timeball`, the text that it comes `after`, which must
stand there exactly once, and the new `text`; each `[[create]]` has a `file` and its `text`. No line numbers and no
context, so that a patch outlives changes around the places that it needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.support.compiled import copy_package

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = Path(__file__).with_name("patches")


class Patched:
    """The source with a patch, in a folder; without the parts of the patch in the files `without`."""

    def __init__(self, patch: str, folder: Path, without: Collection[str] = ()) -> None:
        self._folder = folder
        source = folder / "src" / "timeball"
        copy_package(ROOT / "src" / "timeball", source)
        table = tomllib.loads((PATCHES / f"{patch}.toml").read_text("utf-8"))
        changed = set()
        for edit in table.get("create", ()):
            if edit["file"] not in without:
                assert not (source / edit["file"]).exists(), f"{edit['file']} exists"
                (source / edit["file"]).write_text(edit["text"], "utf-8")
                changed.add(edit["file"])
        for edit in table.get("insert", ()):
            if edit["file"] not in without:
                text = (source / edit["file"]).read_text("utf-8")
                assert text.count(edit["after"]) == 1, f"{edit['file']} has not once {edit['after']!r}"
                before, after = text.split(edit["after"])
                (source / edit["file"]).write_text(f"{before}{edit['after']}{edit['text']}{after}", "utf-8")
                changed.add(edit["file"])
        self.files: Final = sorted(changed)
        """What the patch touches."""

    def run(self, program: str, *arguments: str) -> str:
        """What a Python program prints that imports the copy, and helpers of the tests."""
        code = f"import timeball; assert timeball.__file__.startswith({str(self._folder)!r})\n{program}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self._folder / "src"), str(ROOT)])}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
