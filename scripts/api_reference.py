"""The page `docs/reference/api.md`: every route with its parameters and a command that calls it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from timeball.api.app import ROUTES
from timeball.api.documentation import openapi
from timeball.api.routing import Route
from timeball.domain.identity.permission import Permission

INTRODUCTION: Final = """\
<!-- Generated from the route table in src/timeball/api by `make reference`. -->
# REST API

Requests and answers are JSON with names in camelCase. Lists answer `{"items": [...], "nextCursor": ...}`: send the
cursor as `?cursor=` for the next page. Times are RFC 3339 in UTC. A server describes the same routes, with the
schema of every body and answer, at `/openapi.json` and `/docs`. [Errors](errors.md) have a stable code.

The commands below read the address and the key from here, so that the key is in no command line:

```sh
URL=http://127.0.0.1:1300
(umask 077; echo "Authorization: Bearer $(cat ~/.local/share/timeball/admin.key)" > auth)
```

`$JOB`, `$RUN` and the other variables stand for ids. A route needs the permission that is named beside it: the
role `viewer` has `read`, `operator` also `run`, `editor` also `edit`, `admin` also `admin`, and `system` has all of
them; the role `worker` has only `worker`; `key` needs any valid key, and `public` none. A request with the header
`Idempotency-Key` can be repeated after a lost answer; it is executed once.
"""

VARIABLES: Final = {
    "jobId": "$JOB",
    "runId": "$RUN",
    "workflowId": "$WORKFLOW",
    "workflowRunId": "$WORKFLOW_RUN",
    "backfillId": "$BACKFILL",
    "keyId": "$KEY_ID",
    "sessionId": "$WEB_SESSION",
    "workerId": "$WORKER",
    "taskId": "send-mail",
    "name": "freeze",
    "userId": "anna",
    "tenantId": "acme",
}

QUERIES: Final = {
    "GET /v1/jobs": "?status=scheduled&tag=etl&limit=10",
    "GET /v1/runs": "?status=dead&startTime=2026-03-01T00:00:00Z&limit=10",
    "GET /v1/jobs/{jobId}/next": "?count=5",
    "GET /v1/jobs/{jobId}/ledger": "?from=2026-11-01T00:00:00Z",
    "GET /v1/forecast": "?bucket=1h",
    "GET /v1/stats": "?window=24h",
    "GET /v1/timeline": "?by=tag&lanes=10",
    "GET /v1/slo": "?tag=etl",
    "GET /v1/usage": "?groupBy=user,day&from=2026-11-01",
    "GET /v1/backfills": "?jobId=$JOB",
    "GET /v1/audit-log": "?action=job.*&limit=10",
    "GET /jobs": "?status=done",
}

SESSION: Final = "'\"$SESSION\"'"
TOKEN: Final = "'\"$TOKEN\"'"
_OF_BROWSERS: Final = ["-H", '"Origin: $URL"', "-H", '"Content-Type: application/json"']
HEADERS: Final = {"POST /v1/sign-in": _OF_BROWSERS, "POST /v1/sign-in/provider": _OF_BROWSERS}
"""Headers that browsers send by themselves."""
BODIES: Final[dict[str, Any]] = {
    "POST /v1/jobs:batch": [
        {"name": "first", "task": {"kind": "shell", "command": "echo 1"}},
        {"name": "second", "task": {"kind": "shell", "command": "echo 2"}},
    ],
    "POST /v1/jobs/{jobId}/pause": {"reason": "the warehouse moves"},
    "POST /v1/dead-letters:retry": {"filter": {"tag": "etl"}, "edit": {"parameters": {"region": "eu"}}},
    "POST /v1/dead-letters:discard": {"filter": {"tag": "old"}},
    "POST /v1/sign-in": {"token": TOKEN},
    "POST /v1/worker/hello": {"name": "rack-7", "slots": 4},
    "POST /v1/worker/poll": {"session": SESSION, "seq": 1, "free": 1, "held": [], "wait": 0},
    "POST /v1/worker/report": {"session": SESSION, "pollSeq": 1, "free": 1},
    "POST /v1/worker/beat": {"session": SESSION, "held": []},
    "POST /v1/worker/goodbye": {"session": SESSION},
}
"""Bodies of examples, where the route's own example is not short or cannot be executed as it is."""


def page() -> str:
    return INTRODUCTION + "".join(_group(tag, text) for tag, text in openapi.TAGS.items())


def _group(tag: str, text: str) -> str:
    routes = [route for route in ROUTES if openapi.tag(route) == tag]
    return f"\n## {tag}\n\n{text}.\n" + "".join(map(_section, routes))


def _section(route: Route) -> str:
    parts = [f"\n### {route.method} {route.path}\n", f"{route.summary}. Permission: `{route.permission.value}`.\n"]
    if route.description:
        parts.append(f"{route.description}\n")
    if rows := list(_parameters(route)):
        parts.append("| parameter | in | meaning |\n|---|---|---|\n" + "".join(rows))
    parts.append(f"```sh\n{command(route)}\n```\n")
    return "\n".join(parts)


def _parameters(route: Route) -> Iterator[str]:
    if route.query is not None:
        _, components = msgspec.json.schema_components([route.query])
        for name, schema in components[route.query.__name__]["properties"].items():
            yield f"| `{name}` | query | {_meaning(schema)} |\n"
    for name, text in route.headers.items():
        yield f"| `{name}` | header | {_cell(text)} |\n"


def _meaning(schema: dict[str, Any]) -> str:
    text = schema.get("description", "")
    values = schema.get("enum", [])
    default = schema.get("default")
    listed = ("One of " + ", ".join(f"`{value}`" for value in values) + ".") if values else ""
    stated = f"Default: `{json.dumps(default)}`." if default not in (None, "", [], False) else ""
    return _cell(" ".join(part for part in (text, listed, stated) if part)) or "–"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def command(route: Route) -> str:
    """The command that calls a route: one line, and the body behind it."""
    words = ["curl", "-sS"]
    if route.permission is not Permission.PUBLIC:
        words += ["-H", "@worker-auth" if route.permission is Permission.WORKER else "@auth"]
    body = BODIES.get(name(route), None if route.example is None else msgspec.to_builtins(route.example))
    if route.method != ("GET" if body is None else "POST"):
        words += ["-X", route.method]
    words += HEADERS.get(name(route), [])
    path = re.sub(r"\{(\w+)\}", lambda found: VARIABLES[found[1]], route.path)
    words.append(f'"$URL{path}{QUERIES.get(name(route), "")}"')
    if body is not None:
        words.append(f"-d '{_body(body)}'")
    return " ".join(words)


def _body(body: Any) -> str:
    """On one line if it is short, else one line for each member."""
    text = json.dumps(body, ensure_ascii=False)
    for variable in (SESSION, TOKEN):
        text = text.replace(json.dumps(variable), f'"{variable}"')
    if len(text) < 60 or not isinstance(body, dict | list):
        return text
    if isinstance(body, list):
        inner = ",\n   ".join(json.dumps(each, ensure_ascii=False) for each in body)
        return f"\n  [{inner}]"
    inner = ",\n   ".join(f"{json.dumps(key)}: {_member(value)}" for key, value in body.items())
    return f"\n  {{{inner}}}"


def _member(value: Any) -> str:
    if value == SESSION:
        return f'"{SESSION}"'
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > 90:
        return "[\n     " + ",\n     ".join(json.dumps(each, ensure_ascii=False) for each in value) + "]"
    return text
