"""The bill of materials of a release, as CycloneDX JSON: the Python packages that `pip install timeball` needs, at the
versions of constraints.txt, and the npm packages in the bundle of the web UI."""

from __future__ import annotations

import json
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAMESPACE: Final = uuid.UUID("6f0d2f0c-6a0c-4c0e-9d7c-7469d6562616")


def document(source: Path, version: str, epoch: int) -> bytes:
    """Return the document for a source tree. It depends on the tree and on the installed packages only."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    pins = _pins(source / "constraints.txt")
    python, edges = _python(project["dependencies"], pins)
    npm = list(_npm(source / "web/package-lock.json"))
    components = sorted([*python, *npm], key=lambda each: str(each["bom-ref"]))
    me = f"pkg:pypi/timeball@{version}"
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": me,
                "name": "timeball",
                "version": version,
                "purl": me,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": me, "dependsOn": sorted([*edges.pop(""), *(each["bom-ref"] for each in npm)])},
            *({"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(edges.items())),
        ],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(body, sort_keys=True))
    return json.dumps({**body, "serialNumber": f"urn:uuid:{serial}"}, indent=1).encode() + b"\n"


def _pins(file: Path) -> dict[str, str]:
    pins = {}
    for line in file.read_text().splitlines():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            (pin,) = requirement.specifier
            pins[canonicalize_name(requirement.name)] = pin.version
    return pins


def _python(direct: list[str], pins: dict[str, str]) -> tuple[list[dict[str, Any]], dict[str, set[str]]]:
    """Return the components, and what each needs; the project itself has the empty name."""
    components: dict[str, dict[str, Any]] = {}
    edges: dict[str, set[str]] = {"": set()}
    waiting = [("", Requirement(text)) for text in direct]
    while waiting:
        parent, requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        ref = f"pkg:pypi/{name}@{pins[name]}"
        edges[parent].add(ref)
        if ref not in components:
            found = metadata.distribution(name)
            components[ref] = _component(ref, name, pins[name], found.metadata.get("License-Expression"))
            edges[ref] = set()
            waiting += [(ref, Requirement(text)) for text in found.requires or ()]
    return list(components.values()), edges


def _npm(lock: Path) -> Iterator[dict[str, Any]]:
    if not lock.exists():
        return
    for path, found in json.loads(lock.read_text())["packages"].items():
        if path and not found.get("dev") and not found.get("optional") and "version" in found:
            name = path.rpartition("node_modules/")[2]
            purl = f"pkg:npm/{name.replace('@', '%40', 1)}@{found['version']}"
            yield _component(purl, name, found["version"], found.get("license"))


def _component(ref: str, name: str, version: str, license_: str | None) -> dict[str, Any]:
    licenses = {} if not license_ else {"licenses": [{"expression": license_}]}
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref, **licenses}
