"""The largest valid body and the worst valid query of every route, over the worst state that a store may hold.

A route is measured if it has an entry in `CASES`. The stall test fails for a route without one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.api import ADMIN, WORKER, Api, FakeWorker
from tests.support.stalls import TRIES, Ask, Stall, measured, send
from timeball.api.app import ROUTES
from timeball.api.routing import Route
from timeball.domain.identity.permission import Permission
from timeball.domain.run.status import Status
from timeball.domain.schedule.zone import names
from timeball.domain.sign_in import MAX_SESSIONS_PER_KEY
from timeball.operation.events.feed import MAX_RESUMED_EVENTS, MAX_RING_EVENTS
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import JobFacts
from timeball.operation.events.window import TenantWindow
from timeball.ports.store.changes import RunChange
from timeball.ports.store.jobs import MAX_VERSIONS
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import NewSession
from timeball.slices import at_once

MIB: Final = 1 << 20
LATER: Final = {"type": "date", "expression": "2199-01-01T00:00:00Z"}
SHELL: Final = {"kind": "shell", "command": "true"}
WORST_CRON: Final = {
    "type": "cron",
    "expression": "30 2 8-14 3 */7",
    "timezone": "America/New_York",
    "dstGap": "run",
}
NDJSON: Final = (("content-type", "application/x-ndjson"),)
NOTES: Final = 2_000
WORST_VALUES: Final = ("small numbers", "empty arrays", "nested objects", "many keys", "long floats")
RUN: Final = f"r_{'0' * 28}"
JOB: Final = f"j_{'0' * 28}"


@dataclass(frozen=True)
class Size:
    """The amount of data. The small size has every kind of work, and takes seconds."""

    large_jobs: int
    small_jobs: int
    runs: int
    letters: int
    batch_jobs: int
    batch_bytes: int
    sessions: int
    accounts: int
    """Tenants, users and keys, of each so many."""


REDUCED: Final = Size(
    large_jobs=5,
    small_jobs=1_000,
    runs=300,
    letters=40,
    batch_jobs=1_000,
    batch_bytes=3 * MIB,
    sessions=200,
    accounts=200,
)
WHOLE: Final = Size(
    large_jobs=200,
    small_jobs=10_000,
    runs=5_000,
    letters=1_000,
    batch_jobs=10_000,
    batch_bytes=32 * MIB,
    sessions=1_000,
    accounts=1_000,
)


@dataclass
class State:
    """What the store contains, by the names that the cases use."""

    api: Api
    size: Size
    worker: FakeWorker
    large_job: str = ""
    spare_job: str = ""
    cron_job: str = ""
    edited_job: str = ""
    """A job with as many former definitions as are listed."""
    workflow: str = ""
    small_workflow: str = ""
    workflow_run: str = ""
    run: str = ""
    """A run with as much output, as large a result and as many attempts as a run may have."""
    waiting_run: str = ""
    letter: str = ""
    backfill: str = ""
    number: itertools.count[int] = field(default_factory=itertools.count)


# --- bodies -------------------------------------------------------------------------------------------------------


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def filled(piece: bytes, size: int) -> bytes:
    """Return an array of as many copies of a value as fit into a size."""
    return b"[" + b",".join([piece] * (size // (len(piece) + 1))) + b"]"


def job(parameters: bytes = b"{}", **fields: Any) -> bytes:
    whole = encoded({"task": SHELL, "schedule": LATER, **fields})
    return b'%b,"parameters":%b}' % (whole[:-1], parameters)


def misspelt(number: int) -> bytes:
    """Return a job with a field that does not exist, and whose name is different for each number."""
    fields: dict[str, Any] = {f"paramters{number}": 1}
    return job(**fields)


def value(inner: bytes, **fields: Any) -> bytes:
    return job(b'{"v":%b}' % inner, **fields)


def large_values() -> dict[str, bytes]:
    """Return JSON of almost 1 MiB that takes long to parse, to check or to write, by its kind."""
    room = MIB - 1_000
    keys = b",".join(b'"%x":%d' % (at * 7919 % 1_000_003, at % 10) for at in range(room // 10))
    return {
        "small numbers": filled(b"1", room),
        "empty arrays": filled(b"[1,2,3,4,5,6,7,8,9,0]", room),
        "empty objects": filled(b"{                    }", room),
        "nested objects": filled(
            b'{"a":{"b":[1]},"c":"........................................................"}', room
        ),
        "many keys": b"{%b}" % keys,
        "equal keys": b"{" + b",".join([b'"a":1'] * (room // 6)) + b"}",
        "short texts": filled(b'"a"', room),
        "escapes": b'"' + b"\\n" * (room // 2) + b'"',
        "escaped characters": b'"' + b"\\u00e9" * (room // 6) + b'"',
        "escaped NUL look-alikes": b'"' + b"\\\\u0000" * (room // 7) + b'"',
        "numbers of 19 digits": filled(b"1234567890123456789", room),
        "floats": filled(b"0.1", room),
        "long floats": filled(b"9007199254740993.00000000000000000000001", room),
    }


def refused_values() -> dict[str, bytes]:
    """Return JSON of almost 1 MiB that is refused, by its kind."""
    room = MIB - 1_000
    return {
        "deep": b"[" * room,
        "more empty arrays": filled(b"[]", room),
        "more empty objects": filled(b"{}", room),
        "deep, closed": b"[" * (room // 2) + b"]" * (room // 2),
        "numbers with large exponents": filled(b"1e308", room),
        "numbers with small exponents": filled(b"5e-324", room),
        "a number with very many digits": b"1" * room,
        "a NUL at the end": b"[" + b"1," * (room // 2) + b'"\\u0000"]',
    }


def large_user(number: int) -> bytes:
    subject = f"{number}" + "é" * 200
    email = "e" * 300 + "@example.org"
    return encoded({"userId": f"u{number}", "role": "viewer", "name": "\n" * 200, "email": email, "subject": subject})


OVERLONG_USER: Final = b'{"userId":"u","role":"viewer","name":%b}' % large_values()["escapes"]


def large_tenant(ident: str) -> bytes:
    prices = dict.fromkeys(("run", "attemptSecond", "cpuSecond", "memoryGibSecond", "outputGib"), "0.123456789012")
    return encoded({"tenantId": ident, "name": "\n" * 200, "description": "\n" * 2_000, "limits": {"prices": prices}})


def workflow_tasks(tasks: int, needs: int) -> list[dict[str, Any]]:
    """Return a workflow with this number of tasks and of needs in total; each task needs earlier ones."""
    per_task = needs // tasks
    return [
        {"name": f"{at:x}", "taskId": "t", "needs": [f"{each:x}" for each in range(max(0, at - per_task), at)]}
        for at in range(tasks)
    ]


def large_workflow() -> list[dict[str, Any]]:
    return workflow_tasks(9_000, 90_000)


def referring_workflow() -> list[dict[str, Any]]:
    """Return a workflow with one task that needs thousands of others and uses their results thousands of times."""
    first = [{"name": f"{at:x}", "taskId": "t"} for at in range(3_000)]
    names_ = [each["name"] for each in first]
    last = {"name": "last", "taskId": "t", "needs": names_, "parameters": {"p": [{"$result": "bb7"}] * 45_000}}
    return [*first, last]


def cyclic_workflow() -> list[dict[str, Any]]:
    tasks = large_workflow()
    tasks[0]["needs"] = [tasks[-1]["name"]]
    return tasks


def wrong_workflow() -> list[dict[str, Any]]:
    return [{**each, "needs": [f"x{need}" for need in each["needs"]]} for each in workflow_tasks(9_000, 60_000)]


def batch(jobs: Sequence[bytes], lines: bool) -> bytes:
    return b"\n".join(jobs) if lines else b"[" + b",".join(jobs) + b"]"


def batches(size: Size) -> dict[str, list[bytes]]:
    """Return the jobs of batches, by what makes them costly."""
    many = range(size.batch_jobs)
    zones = sorted(names())
    cron = {"type": "cron", "expression": "0 0 1 1 *"}
    large = size.batch_bytes // MIB - 1
    return {
        "many small": [job(name=f"n{at}") for at in many],
        "many with keys": [job(idempotencyKey=f"k{at}", name=f"n{at}") for at in many],
        "many in the flat shape": [
            encoded({"scheduleType": "future", "scheduleTime": 7_226_582_400_000 + at, "payload": {"script": "a.py"}})
            for at in many
        ],
        "wrong time zones": [
            job(schedule={**cron, "timezone": f"Europe/Berlin{at}"}) for at in range(size.batch_jobs // 8)
        ],
        "wrong fields": [misspelt(at) for at in range(size.batch_jobs // 4)],
        "every time zone": [job(schedule={**cron, "timezone": zone}) for zone in zones],
        "wrong schedules": [job(schedule={"type": "cron", "expression": f"61 {at} * * *"}) for at in many],
        "windows": [
            job(schedule={"type": "window", "from": "01:00", "to": "05:00", "timezone": zones[at % len(zones)]})
            for at in range(size.batch_jobs // 4)
        ],
        "large": [value(filled(b"{%b}" % (b" " * 200), MIB - 1_000))] * large,
        "large with keys": [
            value(filled(b'{"a":[%b1]}' % (b"1," * 150), MIB - 1_000), idempotencyKey=f"l{at}") for at in range(large)
        ],
        "brackets in texts": [value(encoded(["},{" * 2_000])) for _ in range(size.batch_bytes // 8_000)],
        "nested": [value(filled(b'{"a":[1]},{"b":2}', 100_000))] * 17,
        "large exponents": [value(filled(b"1e308", 4_000))] * 14,
    }


# --- cases --------------------------------------------------------------------------------------------------------

Case = Callable[[State], Sequence[Ask]]
CASES: Final[dict[tuple[str, str], Case]] = {}


def case(method: str, path: str) -> Callable[[Case], Case]:
    def register(build: Case) -> Case:
        CASES[method, path] = build
        return build

    return register


def plain(method: str, path: str, *queries: str, **fields: Any) -> None:
    """Add a route whose requests differ only in their queries."""

    def build(state: State) -> list[Ask]:
        address = path.format(
            jobId=state.large_job,
            runId=state.run,
            workflowId=state.workflow,
            workflowRunId=state.workflow_run,
            backfillId=state.backfill,
            taskId="t",
            name="c0",
            keyId="k_none",
            sessionId="s_none",
            userId="u0",
            tenantId="t0",
            workerId=f"w_{'0' * 28}",
        )
        return [Ask(address, query=query, about=query, **fields) for query in queries or ("",)]

    CASES[method, path] = build


def _fresh_key(state: State) -> tuple[tuple[str, str]]:
    return (("idempotency-key", f"key {next(state.number)}"),)


@case("POST", "/v1/jobs")
def create_job(state: State) -> list[Ask]:
    values = {about: each for about, each in large_values().items() if state.size is WHOLE or about in WORST_VALUES}
    asks = [Ask("/v1/jobs", value(each), about=about) for about, each in values.items()]
    asks.append(Ask("/v1/jobs", value(values["many keys"]), headers=_fresh_key(state), about="with a key"))
    asks += [Ask("/v1/jobs", value(each), about=about, status=(400, 422)) for about, each in refused_values().items()]
    flat = {"scheduleType": "future", "scheduleTime": 7_226_582_400_000, "payload": {"script": "a.py", "params": {}}}
    whole = encoded(flat)[:-3]
    asks.append(
        Ask("/v1/jobs", whole + b'"v":%b}}}' % filled(b"{                    }", MIB - 1_000), about="the flat shape")
    )
    env = {f"V{at}": "x" for at in range(10_000)}
    asks.append(Ask("/v1/jobs", encoded({"task": {**SHELL, "env": env}, "schedule": LATER}), about="environment"))
    headers = {f"h{at}": "x" for at in range(1_000)}
    http = {"kind": "http", "url": "http://localhost/", "headers": headers}
    asks.append(Ask("/v1/jobs", encoded({"task": http, "schedule": LATER}), about="headers", status=(201, 422)))
    retry = {"backoff": [f"{at}s" for at in range(1, 100)], "maxRetries": 99}
    asks.append(Ask("/v1/jobs", encoded({"task": SHELL, "schedule": WORST_CRON, "retry": retry}), about="cron"))
    skipped = {**WORST_CRON, "dstGap": "skip"}
    asks.append(
        Ask("/v1/jobs", encoded({"task": SHELL, "schedule": skipped}), about="cron that never fires", status=(422,))
    )
    for about, tasks in (("workflow", large_workflow()), ("references", referring_workflow())):
        body = {"task": {"kind": "workflow", "tasks": tasks}, "schedule": LATER}
        asks.append(Ask("/v1/jobs", encoded(body), about=about))
    return asks


@case("POST", "/jobs")
def create_legacy_job(state: State) -> list[Ask]:
    del state
    return [Ask("/jobs", value(large_values()["empty objects"]))]


def _changes(path: str) -> Case:
    def build(state: State) -> list[Ask]:
        number = next(state.number)
        asks = [
            Ask(path.format(state.large_job), value(each, description=f"{number}"), about=about)
            for about, each in large_values().items()
            if about in ("nested objects", "many keys")
        ]
        return [*asks, Ask(path.format(state.large_job), encoded({"description": f"small {number}"}), about="small")]

    return build


CASES["PUT", "/v1/jobs/{jobId}"] = _changes("/v1/jobs/{}")
CASES["PATCH", "/v1/jobs/{jobId}"] = _changes("/v1/jobs/{}")


@case("POST", "/v1/jobs:batch")
def create_batch(state: State) -> list[Ask]:
    found = batches(state.size).items()
    asks = [Ask("/v1/jobs:batch", batch(jobs, lines=False), about=about) for about, jobs in found]
    asks += [
        Ask("/v1/jobs:batch", batch(jobs, lines=True), headers=NDJSON, about=f"{about}, by line")
        for about, jobs in found
        if about in ("many small", "wrong fields", "large", "nested")
    ]
    pieces = filled(b"1", state.size.batch_bytes - 10)
    asks.append(Ask("/v1/jobs:batch", pieces, about="numbers", status=(413,)))
    asks.append(Ask("/v1/jobs:batch", b"[" * (state.size.batch_bytes - 10), about="deep", status=(400, 422)))
    nested = batch([value(filled(b'{"a":[1]},{"b":2}', 100_000))] * 36, lines=False)
    asks.append(Ask("/v1/jobs:batch", nested, about="very many arrays", status=(422,)))
    exponents = batch([value(filled(b"1e308", 4_000))] * 100, lines=False)
    asks.append(Ask("/v1/jobs:batch", exponents, about="very many exponents", status=(422,)))
    text = b'["' + b"a" * (state.size.batch_bytes - 10) + b'"]'
    asks.append(Ask("/v1/jobs:batch", text, about="one text", status=(200, 413, 422)))
    return asks


plain(
    "GET",
    "/v1/jobs",
    "limit=1000",
    "limit=1000&status=scheduled,paused,completed,cancelled",
    "limit=1000&tag=large",
    "limit=1000&q=a",
    "limit=1000&kind=http&scheduleType=cron",
    "limit=1000&include=recentRuns",
)
plain("GET", "/v1/jobs/{jobId}")
plain("GET", "/v1/stats", "window=24h", "window=5m")
plain("GET", "/v1/timeline", "lanes=200&by=job", "lanes=200&by=tag", "q=a&lanes=200", "tag=large&lanes=200")
plain("GET", "/v1/usage", "groupBy=user,job,day&limit=1000", "groupBy=job&format=csv")
plain("GET", "/v1/jobs/{jobId}/status")
plain("POST", "/v1/jobs/{jobId}/pause")
plain("POST", "/v1/jobs/{jobId}/resume")
plain("GET", "/v1/jobs/{jobId}/runs", "limit=1000")
plain("GET", "/v1/jobs/{jobId}/logs", "limit=1000")
plain("GET", "/v1/jobs/{jobId}/why")


@case("GET", "/v1/jobs/{jobId}/versions")
def versions(state: State) -> list[Ask]:
    paths = {"large": state.large_job, "workflow": state.workflow, "many": state.edited_job}
    return [Ask(f"/v1/jobs/{ident}/versions", query="limit=1000", about=about) for about, ident in paths.items()]


@case("DELETE", "/v1/jobs/{jobId}")
def cancel_job(state: State) -> list[Ask]:
    return [Ask(f"/v1/jobs/{state.spare_job}")]


@case("POST", "/v1/jobs/{jobId}/run")
def run_job(state: State) -> list[Ask]:
    return [Ask(f"/v1/jobs/{state.large_job}/run")]


@case("GET", "/v1/jobs/{jobId}/next")
def next_fires(state: State) -> list[Ask]:
    return [Ask(f"/v1/jobs/{state.cron_job}/next", query="count=1000")]


@case("GET", "/v1/jobs/{jobId}/ledger")
def ledger(state: State) -> list[Ask]:
    return [Ask(f"/v1/jobs/{state.cron_job}/ledger", query="limit=1000&from=0")]


@case("POST", "/v1/jobs/{jobId}/backfill")
def backfill(state: State) -> list[Ask]:
    """A backfill with calendars is measured by a test of its own."""
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z", "parallelism": 1}
    path = f"/v1/jobs/{state.cron_job}/backfill"
    return [Ask(path, encoded({**span, "dryRun": True}), about="dry run"), Ask(path, encoded(span))]


plain("GET", "/v1/backfills", "limit=1000")
plain("GET", "/v1/backfills/{backfillId}")
plain("POST", "/v1/backfills/{backfillId}/cancel")


@case("POST", "/v1/workflows")
def create_workflow(state: State) -> list[Ask]:
    del state
    found = {"large": large_workflow(), "references": referring_workflow()}
    asks = [
        Ask("/v1/workflows", encoded({"tasks": tasks, "schedule": LATER}), about=about)
        for about, tasks in found.items()
    ]
    wrong = {"cycle": cyclic_workflow(), "needs that are not there": wrong_workflow()}
    return asks + [
        Ask("/v1/workflows", encoded({"tasks": tasks, "schedule": LATER}), about=about, status=(422,))
        for about, tasks in wrong.items()
    ]


def change_workflow(state: State) -> list[Ask]:
    body = encoded({"tasks": large_workflow(), "description": f"{next(state.number)}"})
    return [Ask(f"/v1/workflows/{state.workflow}", body)]


CASES["PUT", "/v1/workflows/{workflowId}"] = change_workflow
CASES["PATCH", "/v1/workflows/{workflowId}"] = change_workflow
plain("GET", "/v1/workflows", "limit=1000")
plain("GET", "/v1/workflows/{workflowId}")
plain("POST", "/v1/workflows/{workflowId}/pause")
plain("POST", "/v1/workflows/{workflowId}/resume")
plain("GET", "/v1/workflows/{workflowId}/runs", "limit=1000")
plain("GET", "/v1/workflow-runs/{workflowRunId}")
plain("POST", "/v1/workflow-runs/{workflowRunId}/cancel")
plain("POST", "/v1/workflow-runs/{workflowRunId}/retry", status=(200, 409))


@case("DELETE", "/v1/workflows/{workflowId}")
def cancel_workflow(state: State) -> list[Ask]:
    return [Ask(f"/v1/workflows/{state.small_workflow}")]


@case("POST", "/v1/workflows/{workflowId}/run")
def run_workflow(state: State) -> list[Ask]:
    """The workflow advancer, which begins the run, is measured with the loops."""
    return [Ask(f"/v1/workflows/{state.small_workflow}/run", status=(200, 409))]


plain("GET", "/v1/runs", "limit=1000", "limit=1000&tag=large", "limit=1000&status=dead,failed")
plain("GET", "/v1/runs/{runId}")
plain("POST", "/v1/runs/{runId}/cancel")
plain("GET", "/v1/runs/{runId}/spec")
plain("GET", "/v1/runs/{runId}/result")
plain("GET", "/v1/runs/{runId}/why")


@case("GET", "/v1/runs/{runId}/logs")
def logs(state: State) -> list[Ask]:
    path = f"/v1/runs/{state.run}/logs"
    kinds = {"text": "text/plain", "page": "application/json", "lines": "application/x-ndjson"}
    return [
        Ask(path, query="limit=1000", headers=(("accept", kind),), about=about) for about, kind in kinds.items()
    ] + [Ask(path, query="follow=1", about="followed")]


def _edits(what: str) -> Case:
    def build(state: State) -> list[Ask]:
        edit = b'{"edit":{"parameters":{"v":%b}}}' % large_values()["empty objects"]
        return [Ask(f"/v1/runs/{state.letter}/{what}", edit, status=(200, 409))]

    return build


CASES["POST", "/v1/runs/{runId}/retry"] = _edits("retry")
CASES["POST", "/v1/runs/{runId}/replay"] = _edits("replay")


@case("POST", "/v1/runs:bulk")
def bulk(state: State) -> list[Ask]:
    del state
    body = {"action": "cancel", "filter": {"tag": "waiting"}}
    wide = {"action": "cancel", "filter": {"status": ["running"] * 50, "origin": ["manual"] * 50, "tag": "x" * 200}}
    return [
        Ask("/v1/runs:bulk", encoded({**body, "dryRun": True}), about="dry run"),
        Ask("/v1/runs:bulk", encoded(wide), about="many words"),
        Ask("/v1/runs:bulk", encoded(body)),
    ]


@case("POST", "/v1/jobs:bulk")
def bulk_jobs(state: State) -> list[Ask]:
    """Over many small jobs, and over jobs with as large a definition as a job may have."""
    del state
    path = "/v1/jobs:bulk"
    wide = {"action": "pause", "filter": {"status": ["scheduled"] * 50, "tag": "x" * 200, "kind": "shell"}}
    search = {"action": "pause", "filter": {"q": "no such name", "kind": "shell", "scheduleType": "cron"}}
    asks = [
        Ask(path, encoded({"action": "pause", "filter": {"all": True}, "dryRun": True}), about="dry run"),
        Ask(path, encoded(wide), about="many words"),
        Ask(path, encoded(search), about="search"),
    ]
    for tag in ("large", "small"):
        for action, limit in (("pause", 1_000), ("resume", 1_000), ("run", 100)):
            body = {"action": action, "filter": {"tag": tag}, "limit": limit}
            asks.append(Ask(path, encoded(body), about=f"{action} {tag}"))
    return asks


plain("GET", "/v1/dead-letters", "limit=1000")
plain("GET", "/v1/dead-letters/groups", "limit=1000")


def _letters(what: str) -> Case:
    def build(state: State) -> list[Ask]:
        ids = [f"r_{at:028x}" for at in range(10_000)]
        path = f"/v1/dead-letters:{what}"
        del state
        return [
            Ask(path, encoded({"runIds": ids, "dryRun": True}), about="unknown, dry run"),
            Ask(path, encoded({"runIds": ids}), about="unknown"),
            Ask(path, encoded({"filter": {"tag": "letters"}, "dryRun": True}), about="dry run"),
            Ask(path, encoded({"filter": {"tag": "letters"}}), about="all"),
        ]

    return build


CASES["POST", "/v1/dead-letters:retry"] = _letters("retry")
CASES["POST", "/v1/dead-letters:discard"] = _letters("discard")


@case("POST", "/v1/schedules:preview")
def preview(state: State) -> list[Ask]:
    """A preview with calendars is measured by a test of its own."""
    del state
    body = {"schedule": WORST_CRON, "count": 100}
    padding = b'{"x":%b}' % large_values()["empty objects"]
    return [
        Ask("/v1/schedules:preview", encoded(body)),
        Ask("/v1/schedules:preview", padding, about="nothing that belongs there", status=(422,)),
    ]


def _large_task(number: int = 0) -> bytes:
    body = encoded({"kind": "http", "url": f"http://localhost/{number}"})
    return b'%b,"body":%b}' % (body[:-1], large_values()["empty objects"])


@case("GET", "/v1/events")
def events(state: State) -> list[Ask]:
    """A client that resumes after as many events as there may be, or that gets a reset because they are too many."""
    hub, context = state.api.server.context.events, state.api.server.context
    now = context.clock.monotonic()
    watcher = hub.subscribe("default", EventFilter(), "k_1", "", now, context.rng)
    (feed,) = hub._feeds.values()
    begin = feed._id(feed._number)
    for number in range(MAX_RING_EVENTS // 100):
        window = TenantWindow()
        window.items = [
            (RunChange(f"r_{number}_{each}", JOB, "default", Status.QUEUED, now), JobFacts("default", JOB, "n" * 200))
            for each in range(100)
        ]
        at_once(feed.publish(window, now, now))
    hub.unsubscribe(watcher, now)
    some = feed._id(feed._number - MAX_RESUMED_EVENTS)
    return [
        Ask("/v1/events", query=f"lastEventId={begin}", leaves=True, about="too much to resume"),
        Ask("/v1/events", query=f"lastEventId={some}", leaves=True, about="resumed"),
        Ask("/v1/events", query="tag=" + "x" * 200, leaves=True),
    ]


plain("GET", "/v1/me")
plain("GET", "/v1/tasks", "limit=1000")
plain("GET", "/v1/tasks/{taskId}")
plain("GET", "/v1/calendars", "limit=1000")
plain("GET", "/v1/calendars/{name}")


@case("PUT", "/v1/tasks/{taskId}")
def put_task(state: State) -> list[Ask]:
    return [Ask("/v1/tasks/put", _large_task(next(state.number)))]


@case("DELETE", "/v1/tasks/{taskId}")
def delete_task(state: State) -> list[Ask]:
    del state
    return [Ask("/v1/tasks/none", status=(404,))]


@case("PUT", "/v1/calendars/{name}")
def put_calendar(state: State) -> list[Ask]:
    """The worst calendars are measured by tests of their own."""
    entries = [{"dates": [f"20{year}-{month:02}-01" for month in range(1, 13)]} for year in range(27, 99)]
    return [Ask(f"/v1/calendars/c{next(state.number)}", encoded({"entries": entries}))]


@case("POST", "/v1/calendars:preview")
def preview_calendar(state: State) -> list[Ask]:
    del state
    span = {"from": "2027-01-01T00:00:00Z", "to": "2028-02-01T00:00:00Z"}
    dates = {"dates": [f"2027-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 28)]}
    often = [{"cron": f"{at} * 29 2 *", "for": "1m"} for at in range(60)]
    calendars = {"many dates": [dates] * 10, "rare windows": often, "many": [{"cron": "*/2 * * * *", "for": "1m"}]}
    return [
        Ask("/v1/calendars:preview", encoded({"calendar": {"entries": entries}, **span}), about=about)
        for about, entries in calendars.items()
    ]


@case("DELETE", "/v1/calendars/{name}")
def delete_calendar(state: State) -> list[Ask]:
    del state
    return [Ask("/v1/calendars/none", status=(404,))]


plain("GET", "/v1/forecast", "", "bucket=9h")
plain("GET", "/v1/clock")
plain("POST", "/v1/clock:accept", status=(200, 409))
plain("GET", "/v1/workers", "", "include=gone")
plain("POST", "/v1/workers/{workerId}/drain", status=(404,))
plain("GET", "/v1/api-keys", "limit=1000")
plain("DELETE", "/v1/api-keys/{keyId}", status=(404,))
plain("GET", "/v1/users", "limit=1000")
plain("GET", "/v1/users/{userId}")
plain("GET", "/v1/tenants", "limit=1000")
plain("GET", "/v1/tenants/{tenantId}")
plain("POST", "/v1/sign-out")
plain("GET", "/v1/sessions", "limit=1000")
plain("DELETE", "/v1/sessions/{sessionId}", status=(404,))
plain("POST", "/v1/sign-in-links")
plain("GET", "/jobs", "limit=1000")
plain("GET", "/livez")
plain("GET", "/readyz")
plain("GET", "/metrics")
plain("GET", "/openapi.json")
plain("GET", "/docs")


@case("POST", "/v1/api-keys")
def create_key(state: State) -> list[Ask]:
    del state
    padding = b'{"role":"worker","name":%b}' % large_values()["escapes"]
    return [Ask("/v1/api-keys", padding, status=(422,))]


@case("POST", "/v1/api-keys/{keyId}/rotate")
def rotate_key(state: State) -> list[Ask]:
    del state
    padding = b'{"overlap":%b}' % large_values()["escapes"]
    return [Ask("/v1/api-keys/k_0/rotate", b"{}"), Ask("/v1/api-keys/k_0/rotate", padding, status=(422,))]


@case("POST", "/v1/users")
def create_user(state: State) -> list[Ask]:
    return [Ask("/v1/users", large_user(next(state.number))), Ask("/v1/users", OVERLONG_USER, status=(422,))]


@case("PATCH", "/v1/users/{userId}")
def change_user(state: State) -> list[Ask]:
    return [Ask("/v1/users/u0", encoded({"name": "\n" * 199 + f"{next(state.number) % 10}"}))]


@case("DELETE", "/v1/users/{userId}")
def delete_user(state: State) -> list[Ask]:
    """A user with as many keys as there are accounts; it is deleted only once."""
    del state
    return [Ask("/v1/users/u1", status=(204, 404))]


@case("POST", "/v1/tenants")
def create_tenant(state: State) -> list[Ask]:
    return [Ask("/v1/tenants", large_tenant(f"new{next(state.number)}"))]


@case("PATCH", "/v1/tenants/{tenantId}")
def change_tenant(state: State) -> list[Ask]:
    return [Ask("/v1/tenants/t0", encoded({"description": f"{next(state.number)}" + "\n" * 1_900}))]


@case("POST", "/v1/tenants/{tenantId}/api-keys")
def create_key_of_tenant(state: State) -> list[Ask]:
    served = [f"t{at}" for at in range(state.size.accounts)]
    body = {"role": "worker", "name": "\n" * 200, "tenants": served, "labels": [f"l{at}" for at in range(50)]}
    return [Ask("/v1/tenants/default/api-keys", encoded(body))]


@case("DELETE", "/v1/tenants/{tenantId}")
def delete_tenant(state: State) -> list[Ask]:
    """The loop that deletes what the tenant owns is measured with the loops."""
    del state
    return [Ask("/v1/tenants/t1", status=(202, 404, 409))]


plain("GET", "/v1/slo", "tag=small", "tag=ran")
plain("GET", "/v1/audit-log", "limit=1000", "limit=1000&action=task.*", "limit=1000&scope=system")
plain("GET", "/v1/audit-log/export")
plain("GET", "/v1/sign-in/provider")
plain("POST", "/v1/sign-in/provider", status=(403,))


@case("POST", "/v1/sign-in")
def sign_in(state: State) -> list[Ask]:
    del state
    page = (("host", "localhost"), ("sec-fetch-site", "same-origin"), ("content-type", "application/json"))
    wrong = b'{"token":"%b"}' % (b"\\u00e9" * 10_000)
    cookies = (("cookie", "timeball_1300=;" * 2_000),)
    return [
        Ask("/v1/sign-in", wrong, headers=page, about="a long token", status=(422,)),
        Ask("/v1/sign-in", encoded({"apiKey": ADMIN}), headers=(*page, *cookies), about="many cookies"),
        Ask("/v1/sign-in", encoded({"token": "x" * 200}), headers=page, about="a wrong token", status=(401,)),
    ]


# --- the worker protocol ------------------------------------------------------------------------------------------


def _messages(state: State, message: str, bodies: dict[str, Any], status: tuple[int, ...] = (200,)) -> list[Ask]:
    del state
    return [
        Ask(
            f"/v1/worker/{message}",
            body if isinstance(body, bytes) else encoded(body),
            key=WORKER,
            about=about,
            status=status,
        )
        for about, body in bodies.items()
    ]


@case("POST", "/v1/worker/hello")
def hello(state: State) -> list[Ask]:
    tasks = [f"{at:0200d}" for at in range(10_000)]
    return _messages(state, "hello", {"many tasks": {"name": "w", "slots": 0, "tasks": tasks}})


def held() -> list[int]:
    return list(range(10**11, 10**11 + 120_000))


@case("POST", "/v1/worker/beat")
def beat(state: State) -> list[Ask]:
    return _messages(state, "beat", {"much in hand": {"session": state.worker.session, "held": held()}})


@case("POST", "/v1/worker/poll")
def poll(state: State) -> list[Ask]:
    seq = 10_000 + 2 * next(state.number)
    body = {"session": state.worker.session, "seq": seq, "free": 0, "held": held(), "wait": 0}
    return _messages(state, "poll", {"much in hand": body})


@case("POST", "/v1/worker/report")
def report(state: State) -> list[Ask]:
    """Attempts of other sessions take as long to check, and can be reported again and again."""
    said = {"session": state.worker.session, "pollSeq": 1, "free": 0}
    attempt = {"runId": RUN, "attempt": 1, "token": 1}
    ended = {**attempt, "jobId": JOB, "serial": True, "age": 1, "took": 1}
    failure = {"kind": "k" * 100, "message": "é\n" * 700, "exceptions": ["E" * 100] * 5}
    progress = {"runId": RUN, "token": 1, "fraction": 1e-300, "note": "n" * 1_000}
    bodies = {
        "ended": {**said, "ended": [{**ended, "outcome": {"type": "succeeded"}}] * 2_000},
        "failed": {**said, "ended": [{**ended, "outcome": {"type": "failed", "failure": failure}}] * 500},
        "results": {**said, "ended": [{**ended, "outcome": {"type": "succeeded", "result": [[]] * 300_000}}] * 3},
        "chunks": {**said, "logs": [{**attempt, "seq": 0, "stream": "stdout", "text": "x"}] * 5_000},
        "long chunks": {**said, "logs": [{**attempt, "seq": 0, "stream": "stdout", "text": "\n" * 30_000}] * 60},
        "progress": {**said, "progress": [progress] * NOTES},
        "started": {**said, "started": [{"runId": RUN, "token": 1, "age": 1}] * NOTES},
        "pausing": {**said, "pausing": [{"runId": RUN, "token": 1, "number": 1, "what": "paused", "age": 1}] * NOTES},
    }
    return _messages(state, "report", bodies)


@case("POST", "/v1/worker/goodbye")
def goodbye(state: State) -> list[Ask]:
    return _messages(state, "goodbye", {"": {"session": "w_" + "0" * 28}}, status=(409,))


# --- the stored state ---------------------------------------------------------------------------------------------


async def stored(api: Api, size: Size) -> State:
    """Fill a store through the API."""
    state = State(api, size, FakeWorker(api))
    await _put(api, "PUT", "/v1/tasks/t", encoded({"kind": "shell", "command": "true"}))
    for at in range(size.large_jobs // 4):
        await _put(api, "PUT", f"/v1/tasks/large{at}", _large_task(at))
    entry = {"dates": ["2027-01-01"], "reason": "r" * 100}
    await _put(api, "PUT", "/v1/calendars/c0", encoded({"entries": [entry] * 20}))
    values = itertools.cycle(large_values().values())
    for _ in range(size.large_jobs):
        state.large_job = await _put(api, "POST", "/v1/jobs", value(next(values), tags=["large"]))
    state.large_job = await _put(api, "POST", "/v1/jobs", value(filled(b"{                    }", MIB - 1_000)))
    state.spare_job = await _put(api, "POST", "/v1/jobs", value(filled(b"{                    }", MIB - 1_000)))
    slo = {"startWithin": "5s", "objective": 99.9}
    small = [job(name=f"small {at}", tags=["small"], slo=slo) for at in range(size.small_jobs)]
    await _put(api, "POST", "/v1/jobs:batch", batch(small, lines=False))
    minutely = {"task": SHELL, "schedule": {"type": "cron", "expression": "* * * * *"}, "maxRuns": 1_000_000}
    state.cron_job = await _put(api, "POST", "/v1/jobs", encoded(minutely))
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z", "parallelism": 1}
    path = f"/v1/jobs/{state.cron_job}/backfill"
    state.backfill = await _put(api, "POST", path, encoded(span))
    await _put(api, "POST", f"/v1/backfills/{state.backfill}/cancel")
    await _put(api, "POST", f"/v1/jobs/{state.cron_job}/pause")
    flow = encoded({"tasks": large_workflow(), "schedule": LATER})
    state.workflow = await _put(api, "POST", "/v1/workflows", flow)
    tasks = workflow_tasks(50, 100)
    flow = encoded({"tasks": tasks, "schedule": LATER})
    state.small_workflow = await _put(api, "POST", "/v1/workflows", flow)
    await _put(api, "POST", f"/v1/workflows/{state.small_workflow}/run")
    await _runs(state)
    await _sessions(api, size)
    await _accounts(state)
    for path in (f"/v1/jobs/{state.large_job}", f"/v1/workflows/{state.workflow}"):
        await _put(api, "PATCH", path, encoded({"description": "changed"}))
    state.edited_job = await _put(api, "POST", "/v1/jobs", value(filled(b"{%b}" % (b" " * 20), 20_000)))
    for at in range(MAX_VERSIONS):
        await _put(api, "PATCH", f"/v1/jobs/{state.edited_job}", encoded({"description": f"{at}"}))
    return state


async def _sessions(api: Api, size: Size) -> None:
    """As many sessions as there may be, of some keys, and so as long as a page may be."""
    store = api.server.context.store
    for at in range(size.sessions // MAX_SESSIONS_PER_KEY):
        name = "\n" * 200
        key = Key(id=f"k_{at}", tenant="default", name=name, role="admin", digest=f"{at:064x}", created_at=0)
        await store.add_key(key)
        for number in range(MAX_SESSIONS_PER_KEY):
            await store.open_web_session(NewSession(id=f"s_{at:014x}{number:014x}", digest=f"{at} {number}"), key.id)


async def _accounts(state: State) -> None:
    """Add tenants and users with long texts, and a user with many keys."""
    for at in range(state.size.accounts):
        await _put(state.api, "POST", "/v1/tenants", large_tenant(f"t{at}"))
        await _put(state.api, "POST", "/v1/users", large_user(next(state.number)))
        await _put(state.api, "POST", "/v1/api-keys", encoded({"role": "viewer", "name": "\n" * 200, "userId": "u0"}))


async def _runs(state: State) -> None:
    """Add finished runs with long output and large results, and dead letters with long errors."""
    api, worker = state.api, state.worker
    await worker.hello(slots=10_000)
    due = [encoded({"task": SHELL, "tags": ["ran"], "name": f"ran {at}"}) for at in range(state.size.runs)]
    await _put(api, "POST", "/v1/jobs:batch", batch(due, lines=False))
    none = {"maxRetries": 0}
    broken = [
        encoded({"task": SHELL, "tags": ["letters"], "name": f"dead {at}", "retry": none})
        for at in range(state.size.letters)
    ]
    await _put(api, "POST", "/v1/jobs:batch", batch(broken, lines=False))
    path = f"/v1/workflows/{state.small_workflow}/runs"
    state.workflow_run = (await api.get(path))["items"][0]["runId"]
    left = state.size.runs + state.size.letters
    is_first, seq = True, 0
    while left > 0:
        seq += 1
        body = {"session": worker.session, "seq": seq, "free": 1_000, "held": [], "wait": 200_000}
        orders = await worker.send("poll", body)
        assigned = orders.get("assignments", [])
        for each in assigned:
            left -= each["spec"].get("name", "").startswith(("ran ", "dead "))
        if not assigned:
            await asyncio.sleep(0.01)
            continue
        if is_first:
            is_first = False
            state.run = assigned[0]["runId"]
            await _output(worker, assigned[0], seq)
        for at in range(0, len(assigned), 50):
            await worker.send("report", _ends(worker, assigned[at : at + 50], seq, state))
    state.letter = (await api.get("/v1/dead-letters", params={"limit": 1}))["items"][0]["runId"]


async def _output(worker: FakeWorker, assigned: dict[str, Any], seq: int) -> None:
    same = {name: assigned[name] for name in ("runId", "attempt", "token")}
    for part in range(3):
        logs_ = [{**same, "seq": part * 1_000 + at, "stream": "stdout", "text": "x\n" * 900} for at in range(1_000)]
        await worker.send("report", {"session": worker.session, "pollSeq": seq, "free": 0, "logs": logs_})


def _ends(worker: FakeWorker, assigned: Sequence[dict[str, Any]], seq: int, state: State) -> dict[str, Any]:
    failure = {"kind": "exception", "message": "é" * 10_000, "exceptions": ["E" * 100] * 20}
    ended = []
    for each in assigned:
        same = {name: each[name] for name in ("runId", "jobId", "attempt", "token", "serial")}
        outcome: dict[str, Any] = {"type": "succeeded"}
        if each["runId"] == state.run:
            outcome["result"] = [[]] * 300_000
        if each["spec"].get("name", "").startswith("dead"):
            outcome = {"type": "failed", "failure": failure}
        ended.append({**same, "outcome": outcome, "age": 1, "took": 1})
    return {"session": worker.session, "pollSeq": seq, "free": 0, "ended": ended}


async def _put(api: Api, method: str, path: str, body: bytes = b"") -> str:
    """Send a request that creates something, and return its id."""
    answered = await send(api.app, method, Ask(path, body))
    assert answered.status in (200, 201), f"{method} {path}: {answered.status} {answered.start[:300]!r}"
    return answered.location.rpartition("/")[2]


async def measured_route(state: State, route: Route, tries: int = TRIES) -> dict[str, Stall]:
    """Return the stalls of the worst requests of a route, by what makes them costly."""
    if route.permission is Permission.WORKER:
        await state.worker.hello(slots=10_000)  # the earlier session may have ended by now
    build = CASES[route.method, route.path]
    return await measured(state.api.app, route.method, lambda: build(state), tries)


def missing() -> list[str]:
    """Return the routes without a case."""
    return [f"{route.method} {route.path}" for route in ROUTES if (route.method, route.path) not in CASES]
