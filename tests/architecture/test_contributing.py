"""CONTRIBUTING.md, the pre-commit hooks and the CI workflow agree with what the project checks."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

from tests.architecture.source import ROOT


def test_the_layers_of_the_page_are_those_of_the_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    found = re.search(r"## Layers\n.*?```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    shown = [sorted(re.findall(r"\w+", line)) for line in found.group(1).splitlines()]
    assert shown == [sorted(re.findall(r"\w+", layer)) for layer in layers]


def test_the_hooks_are_the_checks_of_make_lint_and_need_no_network() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    checks = [line.strip().removeprefix("$(BIN)/") for line in recipe.group(1).splitlines()]
    config = _yaml(".pre-commit-config.yaml")
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    entries = [hook["entry"] for hook in config["repos"][0]["hooks"]]
    assert [entry.removeprefix(".venv/bin/").removesuffix(" --force-exclude") for entry in entries] == checks


def test_ci_runs_what_a_contributor_can_run() -> None:
    workflow = _yaml(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    supported = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert job["strategy"]["matrix"]["python"] == supported


def test_the_forms_for_issues_are_readable() -> None:
    forms = [_yaml(f".github/ISSUE_TEMPLATE/{name}.yml") for name in ("bug", "feature")]
    assert all({"name", "description", "body"} <= form.keys() for form in forms)


def _yaml(path: str) -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / path).read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded
