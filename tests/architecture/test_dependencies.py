"""Dependencies are what the code imports, each with its reason; constraints.txt pins all of them."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT, modules

PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
DECLARED = [*RUNTIME, *(Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts)]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()]
PYTHONS = [found[1] for text in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", text))]
READ_AS_DATA = {"tzdata"}
"""Distributions whose files are read; a module of theirs is imported by name at most."""


EXTRAS = {"otel": {"telemetry/otel.py"}}
"""The modules that import what an extra installs."""


def imported() -> dict[str, str]:
    """The distributions that modules of Timeball import from, each with one of these modules."""
    owners = packages_distributions()
    found: dict[str, str] = {}
    for path, module in modules().items():
        if any(path in paths for paths in EXTRAS.values()):
            continue
        for node in ast.walk(module):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"timeball", "_typeshed"}:
                found[canonicalize_name(owners[top][0])] = f"src/timeball/{path} imports {top}"
    return found


@pytest.mark.xdist_group("source")
def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    names = {canonicalize_name(requirement.name) for requirement in RUNTIME}
    found = imported()
    assert {name: where for name, where in found.items() if name not in names} == {}
    assert names - found.keys() == READ_AS_DATA


def test_modules_of_extras_are_imported_in_functions_only() -> None:
    """A process that does not use an extra needs none of its distributions."""
    names = {f"timeball.{path.removesuffix('.py').replace('/', '.')}" for paths in EXTRAS.values() for path in paths}
    eager = {
        path: node.module
        for path, module in modules().items()
        for node in module.body
        if isinstance(node, ast.ImportFrom) and node.module in names
    }
    assert eager == {}
    assert PROJECT["optional-dependencies"].keys() == {"dev", "docs", *EXTRAS}


def test_every_dependency_says_what_it_is_for() -> None:
    for requirement in PROJECT["dependencies"]:
        assert re.search(rf'"{re.escape(requirement)}", +# \w+', PYPROJECT), requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_each_dependency_is_pinned_once_and_within_its_range(python: str, platform: str) -> None:
    environment = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
    }
    pins = [pin for pin in PINS if pin.marker is None or pin.marker.evaluate(environment)]
    for requirement in DECLARED:
        of_it = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
        assert len(of_it) == 1, f"{requirement.name} is pinned {len(of_it)} times: make constraints"
        [version] = [each.version for each in of_it[0].specifier]
        assert requirement.specifier.contains(version), f"{of_it[0]} is outside {requirement}: make constraints"


def test_constraints_are_exact_versions_and_name_no_index() -> None:
    for pin in PINS:
        assert [each.operator for each in pin.specifier] == ["=="], pin
        assert pin.url is None
        assert not pin.extras, "pip takes no extras in constraints"
