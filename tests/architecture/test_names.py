"""No two classes have the same name, unless they are the same thing in two layers; constants name their subject and
their quantity. An exception is listed here with its reason; the test also fails if an exception is not needed any more.
"""

import ast
import re
from collections import defaultdict

import pytest

from tests.architecture.source import ROOT, SRC, modules, only_listed

CLIENT_MODELS = "client/models"

RESOURCES = {
    "Attempt",
    "AuditEntry",
    "Backfill",
    "BackfillRange",
    "Backfills",
    "Calendar",
    "Calendars",
    "Cancelled",
    "Created",
    "Failure",
    "Fire",
    "Forecast",
    "ForecastBucket",
    "InUse",
    "Job",
    "JobStatus",
    "JobVersion",
    "JobVersions",
    "JobWhy",
    "Jobs",
    "Key",
    "Keys",
    "Lane",
    "Lateness",
    "LogChunk",
    "LogLine",
    "LogPage",
    "Preemption",
    "Preview",
    "Reason",
    "Run",
    "RunSpec",
    "RunWhy",
    "Runs",
    "TaskOfRun",
    "Tasks",
    "Timeline",
    "TimelineBucket",
    "TimelineRun",
    "WebSession",
    "Tenant",
    "Tenants",
    "User",
    "Users",
    "WebSessions",
    "Worker",
    "Workers",
    "Workflow",
    "WorkflowRun",
}
"""The client's model of what the API shows has the name that the server has for it."""

SAME_NAME = {
    "Tx": "the transaction of a store, and what each of the two databases makes of it",
}
"""Other names of two classes. Names that begin with an underscore stay in their modules, and are not compared."""

VAGUE = re.compile(
    r"^ *(_?(?:MOST|LONGEST)(?:_[A-Z0-9_]+)?|_?(?:[A-Z0-9_]+_)?(?:PATIENCE|BREATH|REST)(?:_[A-Z0-9_]+)?)\b[^=\n]*=[^=]",
    re.MULTILINE,
)
"""MAX_CLAIMS_PER_BATCH and CLAIM_RETRY_DELAY say of what and how much; these do not."""
VAGUE_CONSTANTS: dict[str, str] = {}


@pytest.mark.xdist_group("source")
def test_two_classes_have_two_names() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    models = {name for name, paths in places.items() if any(path.startswith(CLIENT_MODELS) for path in paths)}
    shared = {name for name in models if len(places[name]) > 1}
    twice = {
        name
        for name, paths in places.items()
        if len([path for path in paths if not path.startswith(CLIENT_MODELS)]) > 1
        or len([path for path in paths if path.startswith(CLIENT_MODELS)]) > 1
    }
    only_listed(twice | (shared - RESOURCES), SAME_NAME)
    assert RESOURCES - shared == set(), "listed without need; remove the words"


@pytest.mark.parametrize("folder", ["src/timeball", "tests", "bench"])
def test_constants_name_what_they_are_about(folder: str) -> None:
    root = ROOT / folder
    found = [
        f"{path.relative_to(root).as_posix()} {name}"
        for path in root.rglob("*.py")
        for name in VAGUE.findall(path.read_text("utf-8"))
    ]
    only_listed(found, VAGUE_CONSTANTS if root == SRC else {})


def test_a_vague_constant_would_be_found() -> None:
    lines = "MOST = 3", "    LONGEST_NAME: Final = 5", "_CLAIM_PATIENCE, OTHER = 1, 2", "BREATH: Final[int] = 4"
    for line in lines:
        assert VAGUE.match(line), line
    for line in ("AT_MOST_ONCE = 1", "MAX_REST_LENGTH_X == 2", "RESTART = 3", "if MOST == 3:", "INTEREST = 2"):
        assert not VAGUE.match(line), line
