"""The states page shows the transitions, statuses and outcomes of the code."""

from __future__ import annotations

import re

from scripts import states
from timeball.domain.job.job import JobState
from timeball.domain.run.lifecycle import TRANSITIONS, State
from timeball.domain.run.status import LIVE, TERMINAL, Status


def test_the_page_is_the_one_that_the_code_yields() -> None:
    current = states.PAGE.read_text("utf-8")
    assert current == states.page(current), "run `make reference`"


def test_the_diagram_of_a_run_has_every_transition_and_no_other() -> None:
    """Read from the page, without the code that wrote it."""
    diagram = _part("run diagram")
    drawn = {
        (begin, event.strip(), end)
        for begin, end, events in re.findall(r"(\w+) --> (\w+): (.+)", diagram)
        for event in events.split(",")
    }
    assert drawn == {
        (state.name, event.value, to.name if isinstance(to, State) else to.value)
        for (state, event), to in TRANSITIONS.items()
    }
    assert set(re.findall(r"(\w+) --> \[\*\]", diagram)) == {status.value for status in TERMINAL}


def test_every_status_is_explained_and_every_live_status_is_shown_for_some_state() -> None:
    assert re.findall(r"^\| `(\w+)` \|", _part("statuses"), re.MULTILINE) == [status.value for status in Status]
    shown = set(re.findall(r"\w+", _part("shown")))
    assert {status.value for status in LIVE} <= shown


def test_every_state_of_a_job_is_drawn() -> None:
    drawn = set(re.findall(r"\w+", " ".join(re.findall(r"(.+? --> [^:\n]+)", _part("job diagram")))))
    assert drawn == {state.value for state in JobState}


def _part(name: str) -> str:
    found = re.search(f"<!-- {name} -->(.*?)<!-- end {name} -->", states.PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)
