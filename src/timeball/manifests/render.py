"""Plans and their results as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros, render
from timeball.manifests import fire_changes
from timeball.manifests.apply import Done
from timeball.manifests.fire_changes import FireChanges
from timeball.manifests.plan import ApplyStep, ManifestPlan

MAX_VALUE_LENGTH: Final = 200
MAX_FIRES: Final = 100
"""Maximum number of fires of each kind that are listed; all of them are counted."""
HIDDEN: Final = "•••"
_SECRET: Final = re.compile(r"passw|secret|token|authorization|cookie|credential|api.?key|private.?key", re.IGNORECASE)
_SIGNS: Final = {"create": "+", "change": "~", "cancel": "-", "undeclared": "?", "unchanged": " "}


def lines(step: ApplyStep, now: Micros) -> Iterator[str]:
    """Yield the lines that describe a step of a plan; none if nothing has to be done."""
    match step.action:
        case "create":
            yield f"{_SIGNS[step.action]} {step.name}{_place(step)}"
            first = (
                "" if step.first is None else f"; first fire {fire_changes.first_fire(step.first, now, step.timezone)}"
            )
            yield f"    {step.sentence}{first}"
            yield from (f"    {note}" for note in step.notes)
        case "change":
            yield f"{_SIGNS[step.action]} {step.name}{_place(step)}"
            for change in step.changes:
                old, new = (value(masked(each, change.field)) for each in (change.old, change.new))
                yield f"    {change.field}: {old} → {new}"
            if step.effect is not None:
                yield f"    {step.effect}"
            yield from (f"    {note}" for note in step.notes)
        case "cancel":
            yield f"{_SIGNS[step.action]} {step.name}  no longer declared; it will be cancelled"
        case "undeclared":
            yield f"{_SIGNS[step.action]} {step.name}  no longer declared; --prune would cancel it"
        case "unchanged":
            return


def summary(plan: ManifestPlan) -> str:
    """Return a line such as `2 to create, 1 to change, 37 unchanged`."""
    counts = [
        (len(plan.of("create")), "to create"),
        (len(plan.of("change")), "to change"),
        (len(plan.of("cancel")), "to cancel"),
        (len(plan.of("undeclared")), "no longer declared"),
    ]
    shown = [f"{count:,} {what}" for count, what in counts if count]
    unchanged = f"{len(plan.of('unchanged')):,} unchanged"
    return ", ".join([*shown, unchanged]) if plan.pending else ", ".join(["nothing to do", *shown, unchanged])


def did(done: Done, now: Micros) -> str:
    """Return one line about the result of a step."""
    step = done.step
    verb = {"create": "created", "change": "changed", "cancel": "cancelled"}.get(step.action, step.action)
    named = f"{_SIGNS[step.action]} {step.name}  {verb}"
    if step.action == "create" and done.job is not None and done.job.paused:
        return f"{named}, paused"
    if step.action == "create" and step.first is not None and not step.notes:
        return f"{named}; first fire {fire_changes.first_fire(step.first, now, step.timezone)}"
    return named


def value(given: Any) -> str:
    if given is None:
        return "none"
    plain = isinstance(given, str) and given.strip() == given != "" and "\n" not in given
    text = given if plain else msgspec.json.encode(given).decode()
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def masked(given: Any, name: str = "") -> Any:
    """Return a copy of a value, with `HIDDEN` in place of each text, number or boolean whose name matches `_SECRET`.
    CI systems log the plans that are printed. The members of an object are checked by their own names alone.
    """
    if isinstance(given, dict):
        return {key: masked(each, key) for key, each in given.items()}
    if isinstance(given, list):
        return [masked(each, name) for each in given]
    return HIDDEN if given is not None and _SECRET.search(name) else given


def _place(step: ApplyStep) -> str:
    return "" if step.declared is None else f"  ({step.declared.place})"


# --- JSON ---------------------------------------------------------------------------------------------------------


def planned(plan: ManifestPlan) -> dict[str, Any]:
    shown = [_step(step) for step in plan.steps if step.action != "unchanged"]
    return {"set": plan.set_name, "counts": _counts(plan), "items": shown}


def applied(plan: ManifestPlan, done: Iterable[Done]) -> dict[str, Any]:
    items = []
    for each in done:
        item = _step(each.step)
        if each.job is not None:
            item["jobId"] = each.job.job_id
        if each.error is not None:
            problems = each.error.problems if isinstance(each.error, Invalid) else ()
            item["error"] = {
                "code": each.error.code,
                "detail": each.error.detail,
                "errors": [{"pointer": problem.pointer, "detail": problem.detail} for problem in problems],
            }
        items.append(item)
    return {"set": plan.set_name, "counts": _counts(plan), "items": items}


def _counts(plan: ManifestPlan) -> dict[str, int]:
    actions = ("create", "change", "cancel", "undeclared", "unchanged")
    return {action: sum(step.action == action for step in plan.steps) for action in actions}


def _step(step: ApplyStep) -> dict[str, Any]:
    shown: dict[str, Any] = {"action": step.action, "name": step.name}
    if step.known is not None:
        shown["jobId"] = step.known.job_id
    if step.declared is not None:
        shown |= {"file": step.declared.file, "line": step.declared.line}
    if step.changes:
        shown["changes"] = [
            {"field": each.field, "old": masked(each.old, each.field), "new": masked(each.new, each.field)}
            for each in step.changes
        ]
    if step.action == "create":
        shown["description"] = step.sentence
        shown["firstFireAt"] = None if step.first is None else render(step.first)
    if step.effect is not None:
        shown["fires"] = _fires(step.effect)
    if step.notes:
        shown["notes"] = list(step.notes)
    return shown


def _fires(found: FireChanges) -> dict[str, Any]:
    return {
        "until": render(found.until),
        "summary": str(found),
        "counts": {
            "moved": len(found.moved),
            "added": len(found.added),
            "dropped": len(found.dropped),
            "kept": found.kept,
        },
        "moved": [{"from": render(old), "to": render(new)} for old, new in found.moved[:MAX_FIRES]],
        "added": [render(at) for at in found.added[:MAX_FIRES]],
        "dropped": [render(at) for at in found.dropped[:MAX_FIRES]],
    }
