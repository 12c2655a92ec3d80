"""Dependencies are what the code imports, each with its reason."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
READ_AS_DATA = {"tzdata"}
"""Distributions whose files are read; a module of theirs is imported by name at most."""


def imported() -> dict[str, str]:
    """The distributions that modules of Timeball import from, each with one of these modules."""
    owners = packages_distributions()
    found: dict[str, str] = {}
    for path in sorted(ROOT.glob("src/timeball/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"timeball"}:
                found[canonicalize_name(owners[top][0])] = f"{path.relative_to(ROOT)} imports {top}"
    return found


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    names = {canonicalize_name(requirement.name) for requirement in RUNTIME}
    found = imported()
    assert {name: where for name, where in found.items() if name not in names} == {}
    assert names - found.keys() == READ_AS_DATA


def test_every_dependency_says_what_it_is_for() -> None:
    for requirement in PROJECT["dependencies"]:
        assert re.search(rf'"{re.escape(requirement)}", +# \w+', PYPROJECT), requirement
