"""Translates Kubernetes CronJobs into declared jobs.

The importer copies each Kubernetes manifest, and removes a field from the copy when it has translated the field. It
reports the path of every field that is left, so that the user knows what is not imported. It ignores fields that
Kubernetes fills in itself, such as `status`, and `restartPolicy`, which changes nothing.

Timeball runs commands on workers, not images. So the worker must provide what the image and the pod provide.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from timeball.domain import duration
from timeball.domain.dispatch import placement
from timeball.domain.errors import Invalid
from timeball.domain.instant import SECOND
from timeball.manifests.importing.translation import Translated, Translation, unique
from timeball.manifests.parse import Document

AS_KUBERNETES_DOES: Final = {"overlap": "allow", "catchUp": "last", "retry": {"maxRetries": 6, "cap": "6m"}}
"""The defaults of Kubernetes. Of missed fires, only the last is caught up."""

_OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_previous"}
_MADE_THERE: Final = (
    *("creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "selfLink", "ownerReferences"),
    *("finalizers",),
)
_BOOKKEEPING: Final = "kubectl.kubernetes.io/last-applied-configuration"
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ZONE_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)$")
_MEANINGLESS: Final = {
    "successfulJobsHistoryLimit": "the setting --retention of the server determines how long history is kept",
    "failedJobsHistoryLimit": "the setting --retention of the server determines how long history is kept",
    "ttlSecondsAfterFinished": "the setting --retention of the server determines how long history is kept",
    "image": "Timeball runs the command on a worker, which must have the programs and files of the image",
    "imagePullPolicy": "there is no image to pull",
    "nodeSelector": "use labels of workers and the field runsOn of the job",
    "limits": "Timeball reserves the requested resources and limits none",
    "valueFrom": "only plain values are imported",
    "envFrom": "only plain values are imported",
}


class _NotOurs(Exception):
    """Raised with the reason if a manifest cannot become a job."""


def translate(documents: Iterable[Document]) -> Translation:
    found = Translation(defaults=AS_KUBERNETES_DOES)
    names: set[str] = set()
    for document, at, manifest in _manifests(documents):
        line = document.line(at) or 1
        if not isinstance(manifest, dict):
            found.lost(line, "this is not a manifest: it is not a mapping")
            continue
        kind = manifest.get("kind")
        if kind != "CronJob":
            found.lost(line, f"a {kind or 'manifest without a kind'} is not a CronJob, and is ignored")
            continue
        rest = _Rest(document, at, copy.deepcopy(manifest))
        try:
            job = _job(rest, found)
        except _NotOurs as error:
            found.lost(line, f"{_name(manifest)}: {error}")
            continue
        name = unique(job["name"], names)
        names.add(name)
        found.jobs.append(Translated(line, {**job, "name": name}))
        for path, place in rest.left():
            reason = _MEANINGLESS["valueFrom"] if ".env." in path else _MEANINGLESS.get(path.rpartition(".")[2], "")
            found.note(place or line, f"{name}: {path} is not imported" + (f": {reason}" if reason else ""))
    return found


def _manifests(documents: Iterable[Document]) -> Iterator[tuple[Document, str, Any]]:
    """Yield all manifests, including the items of lists: the document, the pointer and the value."""
    for document in documents:
        value = document.value
        if (
            isinstance(value, dict)
            and str(value.get("kind", "")).endswith("List")
            and isinstance(value.get("items"), list)
        ):
            for index, item in enumerate(value["items"]):
                yield document, f"/items/{index}", item
        elif value is not None:
            yield document, "", value


class _Rest:
    """The fields of a manifest that are not translated yet."""

    def __init__(self, document: Document, at: str, value: dict[str, Any]) -> None:
        self._document = document
        self._at = at
        self._value = value

    def take(self, *path: str) -> Any:
        """Remove and return the value at a path; None: there is none."""
        holder: Any = self._value
        for step in path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        return holder.pop(path[-1], None) if isinstance(holder, dict) else None

    def give_back(self, value: Any, *path: str) -> None:
        """Put a value back into the manifest, because it could not be translated, so that it is reported."""
        holder: Any = self._value
        for step in path[:-1]:
            holder = holder.setdefault(step, {})
        holder[path[-1]] = value

    def left(self) -> Iterator[tuple[str, int | None]]:
        yield from self._left(self._value, self._at, "")

    def _left(self, value: Any, at: str, path: str) -> Iterator[tuple[str, int | None]]:
        if isinstance(value, dict) and not path.endswith(_WHOLE_VALUES):
            for name, each in value.items():
                below = f"{at}/{name.replace('~', '~0').replace('/', '~1').replace('[0]', '/0')}"
                yield from self._left(each, below, f"{path}.{name}" if path else name)
        elif value not in (None, [], {}) and _DEFAULTS.get(path.rpartition(".")[2]) != value:
            yield path, self._document.line(at)


_WHOLE_VALUES: Final = ("labels", "annotations", "affinity", "securityContext", "nodeSelector", "limits", "lifecycle")
_DEFAULTS: Final = {
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
"""Values that Kubernetes itself adds to every manifest. They are not reported."""
_POD: Final = ("spec", "jobTemplate", "spec", "template", "spec")
_CONTAINER: Final = (*_POD, "containers[0]")


def _job(rest: _Rest, found: Translation) -> dict[str, Any]:
    rest.take("apiVersion")
    rest.take("kind")
    rest.take("status")
    for name in _MADE_THERE:
        rest.take("metadata", name)
    rest.take("metadata", "annotations", _BOOKKEEPING)
    name, namespace = rest.take("metadata", "name"), rest.take("metadata", "namespace")
    if not isinstance(name, str) or not name:
        raise _NotOurs("it has no metadata.name")
    job: dict[str, Any] = {"name": name if namespace in (None, "default") else f"{namespace}/{name}"}
    job["task"] = _task(rest)
    job["schedule"] = _schedule(rest)
    job |= _policies(rest)
    if tags := _tags(rest):
        job["tags"] = tags
    if resources := _resources(rest):
        job["resources"] = resources
    return job


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    return str(metadata.get("name", "CronJob")) if isinstance(metadata, dict) else "CronJob"


def _schedule(rest: _Rest) -> dict[str, Any]:
    expression = rest.take("spec", "schedule")
    timezone = rest.take("spec", "timeZone")
    if not isinstance(expression, str) or not expression.strip():
        raise _NotOurs("it has no spec.schedule")
    if prefixed := _ZONE_PREFIX.match(expression):
        timezone, expression = prefixed[1], prefixed[2]
    if expression.startswith("@every "):
        length = expression.removeprefix("@every ").strip()
        try:
            duration.parse(length, shortest=SECOND)
        except Invalid as error:
            raise _NotOurs(f"spec.schedule: {error.detail}") from None
        return {"type": "interval", "expression": length}
    schedule = {"type": "cron", "expression": " ".join(expression.split())}
    return schedule if timezone in (None, "UTC", "Etc/UTC") else {**schedule, "timezone": timezone}


def _policies(rest: _Rest) -> dict[str, Any]:
    job: dict[str, Any] = {}
    policy = rest.take("spec", "concurrencyPolicy")
    if policy is not None:
        if policy not in _OVERLAPS:
            raise _NotOurs(f"spec.concurrencyPolicy {policy!r} is not one of {', '.join(_OVERLAPS)}")
        job["overlap"] = _OVERLAPS[policy]
    if (seconds := rest.take("spec", "startingDeadlineSeconds")) is not None:
        job["startDeadline"] = seconds
    if rest.take("spec", "suspend"):
        job["paused"] = True
    if (limit := rest.take("spec", "jobTemplate", "spec", "backoffLimit")) is not None:
        job["retry"] = {"maxRetries": limit}
    rest.take(*_POD, "restartPolicy")  # backoffLimit applies with every policy
    own = rest.take(*_POD, "activeDeadlineSeconds")
    whole = rest.take("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    if own is not None and whole is not None:
        rest.give_back(whole, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    if (timeout := whole if own is None else own) is not None:
        job["timeout"] = timeout
    if (grace := rest.take(*_POD, "terminationGracePeriodSeconds")) is not None:
        job["grace"] = grace
    for one in ("completions", "parallelism"):
        if (count := rest.take("spec", "jobTemplate", "spec", one)) not in (None, 1):
            rest.give_back(count, "spec", "jobTemplate", "spec", one)
    return job


def _task(rest: _Rest) -> dict[str, Any]:
    containers = rest.take(*_POD, "containers")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], dict):
        many = len(containers) if isinstance(containers, list) else 0
        raise _NotOurs(f"it has {many} containers, and a job runs one command")
    if rest.take(*_POD, "initContainers"):
        raise _NotOurs("it has initContainers, and a job runs one command")
    container: dict[str, Any] = containers[0]
    rest.give_back(container, *_CONTAINER)
    container.pop("name", None)
    command, arguments = container.pop("command", None), container.pop("args", None) or []
    if not command:
        raise _NotOurs(f"the command is in the image {container.get('image')!r}; write a command into the container")
    env = _environment(container)
    words = [_expanded(word, env) for word in [*command, *arguments]]
    task: dict[str, Any] = {"kind": "shell", "command": words}
    if env:
        task["env"] = env
    if (folder := container.pop("workingDir", None)) is not None:
        task["cwd"] = folder
    return task


def _environment(container: dict[str, Any]) -> dict[str, str]:
    """Return the variables with plain values, which may refer to earlier ones as `$(NAME)`. The others stay in the
    container and are reported.
    """
    env: dict[str, str] = {}
    left = {}
    for entry in container.pop("env", None) or []:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise _NotOurs("an entry of env has no name")
        if "valueFrom" in entry or not _VARIABLE.fullmatch(name) or name.startswith("TIMEBALL_"):
            left[name] = "told"
        else:
            value = entry.get("value")
            env[name] = _expanded("" if value is None else str(value), env)
    if left:
        container["env"] = left
    return env


def _expanded(text: Any, env: Mapping[str, str]) -> Any:
    """Replace `$(NAME)` by the value of a known variable; an unknown one stays. `$$` is a dollar sign."""
    if not isinstance(text, str):
        return text

    def replaced(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return _REFERENCE.sub(replaced, text)


def _tags(rest: _Rest) -> list[str]:
    labels = rest.take("metadata", "labels")
    if not isinstance(labels, dict):
        return []
    tags = [f"{name}={value}" for name, value in labels.items()]
    long = [tag for tag in tags if len(tag) > 100]
    if long:
        rest.give_back(long, "metadata", "labels")
    return [tag for tag in tags if tag not in long]


def _resources(rest: _Rest) -> dict[str, Any]:
    """Return the requested CPU and memory. Other resources stay in the manifest and are reported."""
    path = (*_CONTAINER, "resources", "requests")
    resources: dict[str, Any] = {}
    if (cpu := rest.take(*path, "cpu")) is not None:
        text = str(cpu)
        try:
            resources["cpu"] = int(text[:-1]) / 1000 if text.endswith("m") else float(text)
        except ValueError:
            rest.give_back(cpu, *path, "cpu")
    if (memory := rest.take(*path, "memory")) is not None:
        try:
            resources["memoryMb"] = _mebibytes(str(memory))
        except (Invalid, ValueError):
            rest.give_back(memory, *path, "memory")
    return resources


def _mebibytes(text: str) -> int:
    """Return a quantity such as `512Mi` or `1Gi` in MiB. Without a unit it is in bytes. `M` and `G` are read as `Mi`
    and `Gi`, which are larger.
    """
    if text.isdigit():
        return -(-int(text) >> 20) or 1
    return placement.mebibytes(text.removesuffix("i"))
