"""Write the diagrams and tables of `docs/design/states.md` from the tables of `domain/run` and the states of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

from scripts.marked_page import fill
from timeball.api.views import JobStatusName
from timeball.domain.job.job import JobState
from timeball.domain.run import lifecycle
from timeball.domain.run.lifecycle import TRANSITIONS, Failed, Failure, Outcome, State
from timeball.domain.run.status import STATUSES, Status
from timeball.domain.task.retry import Delivery, Retry

PAGE = Path(__file__).parents[1] / "docs/design/states.md"

STATUS_MEANING: Final = {
    Status.SCHEDULED: "Its due instant has not come.",
    Status.BLOCKED: "An earlier run, its ordering key or a limit holds it back.",
    Status.QUEUED: "It is due and waits for a free slot.",
    Status.RUNNING: "A worker executes it.",
    Status.RETRYING: "An attempt failed or was lost. It waits for the next attempt.",
    Status.SUCCEEDED: "An attempt succeeded.",
    Status.FAILED: "It failed finally: its error, its retry policy or its delivery (at most once) excludes a retry."
    " A workflow that failed and a task of one that failed end so as well.",
    Status.DEAD: "Its retries are used up. It is a dead letter, and waits for a person.",
    Status.CANCELLED: "A user or a rule cancelled it.",
    Status.SKIPPED: "It never ran, because of its overlap rule, catch-up rule, calendar or deadline. The ledger has the"
    " reason.",
}
JOB_MEANING: Final = {
    JobState.ACTIVE: "It fires as scheduled.",
    JobState.PAUSED: "It fires nothing until it is resumed. Then the catch-up rule applies to the fires of the pause.",
    JobState.CANCELLED: "It fires nothing any more. Final.",
}
JOB_SHOWN_AS: Final[dict[JobState, tuple[str, ...]]] = {
    JobState.ACTIVE: ("scheduled", "completed"),
    JobState.PAUSED: ("paused",),
    JobState.CANCELLED: ("cancelled",),
}
JOB_TRANSITIONS: Final = (
    (None, JobState.ACTIVE, "submit"),
    (JobState.ACTIVE, JobState.ACTIVE, "update"),
    (JobState.ACTIVE, JobState.PAUSED, "pause"),
    (JobState.PAUSED, JobState.ACTIVE, "resume, or the end of the pause"),
    (JobState.ACTIVE, JobState.CANCELLED, "cancel"),
    (JobState.PAUSED, JobState.CANCELLED, "cancel"),
)
OUTCOMES: Final[dict[type, Outcome]] = {
    kind: Failed(Failure(kind="exit", message="")) if kind is Failed else kind() for kind in get_args(Outcome)
}


def page(current: str) -> str:
    parts = {
        "run diagram": _run_diagram(),
        "shown": _shown(),
        "statuses": _statuses(),
        "attempt diagram": _attempt_diagram(),
        "outcomes": _outcomes(),
        "job diagram": _job_diagram(),
        "job states": _job_states(),
    }
    return fill(current, parts)


def _run_diagram() -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), to in TRANSITIONS.items():
        arrows.setdefault((_node(state), _node(to)), []).append(event.value)
    lines = [
        "[*] --> READY: planned",
        "[*] --> BLOCKED: planned, with a hold",
        "[*] --> RUNNING: claimed by the transaction that submits it",
        *(f"{begin} --> {end}: {', '.join(events)}" for (begin, end), events in arrows.items()),
        *(f"{_node(status)} --> [*]" for status in dict.fromkeys(TRANSITIONS.values()) if isinstance(status, Status)),
    ]
    return _mermaid(lines)


def _node(place: State | Status) -> str:
    return place.name if isinstance(place, State) else place.value


def _shown() -> str:
    """What `lifecycle.status` answers in each case."""
    cases = {"before its due instant": (0, 1), "due, before the first attempt": (0, -1), "after an attempt": (1, -1)}
    rows = []
    for state in State:
        cells = [
            lifecycle.status(state, attempt=attempt, due_at=ahead, eligible_at=ahead, now=0).value
            for attempt, ahead in cases.values()
        ]
        if state is State.RUNNING:
            cells[1] = "–"  # a claim begins the first attempt
        rows.append([f"`{state.name}`", *cells])
    return _table(["stored", *cases], rows)


def _statuses() -> str:
    rows = []
    for status in Status:
        end = STATUSES[status].end
        rows.append([f"`{status.value}`", "live" if end is None else f"terminal: {end.value}", STATUS_MEANING[status]])
    return _table(["status", "kind", "meaning"], rows)


def _attempt_diagram() -> str:
    lines = ["[*] --> claimed: claim", "claimed --> started: the worker starts it"]
    for kind in OUTCOMES:
        lines += [f"started --> {_tag(kind)}", f"{_tag(kind)} --> [*]"]
    early = ("failed", "cancelled", "released", "lost")
    lines += [f"claimed --> {_tag(kind)}" for kind in OUTCOMES if _tag(kind) in early]
    return _mermaid(lines)


def _outcomes() -> str:
    """What `lifecycle.settle` decides in each case."""
    cases: dict[str, tuple[int, Delivery, bool]] = {
        "retries left": (1, "at_least_once", False),
        "last attempt": (2, "at_least_once", False),
        "delivered at most once": (1, "at_most_once", False),
        "cancel requested": (1, "at_least_once", True),
    }
    rows = []
    for kind, outcome in OUTCOMES.items():
        cells = []
        for attempt, delivery, cancelled in cases.values():
            decided = lifecycle.settle(
                outcome,
                attempt=attempt,
                started=True,
                cancel_requested=cancelled,
                policy=Retry(max_retries=1),
                delivery=delivery,
                now=0,
                spread=0.0,
            )
            cells.append(f"{decided.event.value} → {_node(decided.to)}")
        rows.append([f"`{_tag(kind)}`", *cells])
    return _table(["outcome", *cases], rows)


def _tag(kind: type) -> str:
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]


def _job_diagram() -> str:
    lines = [f"{begin.value if begin else '[*]'} --> {end.value}: {verb}" for begin, end, verb in JOB_TRANSITIONS]
    return _mermaid([*lines, f"{JobState.CANCELLED.value} --> [*]"])


def _job_states() -> str:
    shown = [name for state in JobState for name in JOB_SHOWN_AS[state]]
    if sorted(shown) != sorted(get_args(JobStatusName)):
        raise ValueError(f"the API shows {get_args(JobStatusName)}, this page {shown}")
    rows = [[f"`{state.value}`", " or ".join(JOB_SHOWN_AS[state]), JOB_MEANING[state]] for state in JobState]
    return _table(["stored", "shown as", "meaning"], rows)


def _mermaid(lines: list[str]) -> str:
    return "\n".join(["```mermaid", "stateDiagram-v2", *(f"  {line}" for line in lines), "```"])


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
