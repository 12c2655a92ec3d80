"""Imports point one way. `make lint` checks the layers with import-linter. This checks that its contracts have no
holes, and looks for cycles of modules by itself."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest

from tests.architecture.source import ROOT, SRC, modules, only_listed

LINTER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
CONTRACTS: list[dict[str, Any]] = LINTER["contracts"]
LAYERS = (
    "cli > chaos | manifests > bootstrap > api | server | worker > jobspec | web > operation | stores | executors | \
object_stores | identity_providers | client > system > config : ports > domain"
)
"""As the contract has them, without brackets."""
OPTIONS = {
    "layers": {"containers", "layers"},
    "protected": {"protected_modules", "allowed_importers"},
    "acyclic_siblings": {"ancestors"},
}
"""The only keys of a contract, beside its name: all others of import-linter let imports through."""
WITHOUT_LAYER = {
    "telemetry": "logs, traces and metrics, for every layer above ports",
}


def test_no_contract_ignores_an_import() -> None:
    assert LINTER.keys() == {"root_package", "contracts"}
    for contract in CONTRACTS:
        assert contract.keys() == {"id", "name", "type"} | OPTIONS[contract["type"]], contract["name"]
    assert [contract["ancestors"] for contract in CONTRACTS if contract["type"] == "acyclic_siblings"] == [["timeball"]]


def test_layers_are_in_their_order_and_every_folder_is_one() -> None:
    (layers,) = (contract["layers"] for contract in CONTRACTS if contract["id"] == "layers")
    assert " > ".join(layers).replace("(", "").replace(")", "") == LAYERS
    named = set(LAYERS.replace(">", " ").replace("|", " ").replace(":", " ").split())
    folders = {path.name for path in SRC.iterdir() if (path / "__init__.py").is_file()}
    only_listed(folders - named, WITHOUT_LAYER)
    assert sorted(named - folders - {path.stem for path in SRC.glob("*.py")}) == []


@pytest.mark.xdist_group("source")
def test_no_modules_import_each_other() -> None:
    """Imports inside of functions and for types only count as well. The package `timeball` itself does not: it names
    the public surface, for type checkers and on demand, and is imported before any module of it."""
    graph = imports()
    assert len(graph) > 300
    assert cycle(graph) == []


@pytest.mark.parametrize(
    "graph", [{"a": {"b"}, "b": {"a"}}, {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}], ids=["two", "three"]
)
def test_a_cycle_would_be_found(graph: dict[str, set[str]]) -> None:
    assert len(cycle(graph)) == sum(bool(targets) for targets in graph.values()) + 1


def test_every_way_to_import_counts() -> None:
    known = {"timeball.a", "timeball.a.b", "timeball.c"}
    code = """
import timeball.c
from timeball.a import b
from timeball.a import Name
from . import sibling
if TYPE_CHECKING:
    from timeball.a.b import Type
def function():
    from timeball import c
"""
    assert set(targets(ast.parse(code), "timeball.c", known)) == {"timeball.a", "timeball.a.b", "timeball.c"}


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first one again at the end; none if there is no ring."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


def imports() -> dict[str, set[str]]:
    names = {_name(path): module for path, module in modules().items()}
    del names["timeball"]
    return {name: set(targets(module, name, names.keys())) - {name} for name, module in names.items()}


def targets(module: ast.Module, name: str, known: Any) -> Iterator[str]:
    """The modules that a module imports, of those that are known."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` is allowed for siblings only: see ban-relative-imports in pyproject.toml.
            origin = node.module or ""
            if node.level:
                package = name if (SRC.parent / name.replace(".", "/")).is_dir() else name.rpartition(".")[0]
                origin = f"{package}.{origin}".rstrip(".")
            for alias in node.names:
                found = f"{origin}.{alias.name}"
                if found in known:
                    yield found
                elif origin in known:
                    yield origin


def _name(path: str) -> str:
    return ".".join(["timeball", *path.removesuffix(".py").split("/")]).removesuffix(".__init__")
