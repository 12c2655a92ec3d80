"""Generates the OpenAPI 3.1 document from the table of routes and their types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from timeball.api.documentation.openapi_schemas import portable
from timeball.api.problems import Problem
from timeball.api.routing import Route
from timeball.domain.identity.permission import Permission

TAGS: Final = {
    "jobs": "What to run, when, and by which rules",
    "runs": "The executions of jobs, with their outcomes",
    "workflows": "Jobs with tasks that need each other",
    "workflow-runs": "The executions of workflows, with the state of each task",
    "dead-letters": "Runs that used up their retries and wait for a person",
    "schedules": "Previews of schedules",
    "backfills": "Requests to run the fires of a past range",
    "tasks": "Tasks that jobs refer to by name",
    "calendars": "Named sets of times at which jobs do not fire",
    "forecast": "Expected fires, compared with the capacity of the workers",
    "stats": "The aggregates of an overview",
    "timeline": "Runs and coming fires, in lanes",
    "slo": "Starts of runs, compared with the objectives of their jobs",
    "usage": "What runs used, and what that costs",
    "workers": "The processes that execute runs",
    "events": "Changes of runs, jobs and workers, as they happen",
    "me": "The credential of the request",
    "api-keys": "The keys that authenticate clients and workers",
    "users": "The users of a tenant",
    "tenants": "Tenants, with their limits and prices",
    "audit-log": "Entries about the requests that changed something",
    "sessions": "Browsers that are signed in",
    "clock": "The store's time, and holds of planning",
    "legacy": "An older path for the same jobs",
    "service": "Health checks and this description",
    "worker": "The messages between workers and servers",
}
_ID_FORMS: Final = {
    "jobId": "^j_[0-9a-f]{28}$",
    "runId": "^r_[0-9a-f]{28}$",
    "backfillId": "^b_[0-9a-f]{28}$",
    "workflowId": "^j_[0-9a-f]{28}$",
    "workflowRunId": "^r_[0-9a-f]{28}$",
    "sessionId": "^s_[0-9a-f]{28}$",
}
_PROBLEMS: Final = {
    400: "The body is not JSON.",
    401: "The API key is missing or unknown.",
    403: "The API key does not have the permission.",
    404: "The resource does not exist.",
    409: "The state of the resource does not allow this.",
    412: "The resource has another version than `If-Match`.",
    413: "The body is too large.",
    415: "The body is compressed.",
    422: "A value is invalid; `errors` has its JSON pointer.",
    429: "A limit was reached; see `Retry-After`.",
    500: "A bug in the server; its log has the details under `incident`.",
    503: "The store does not answer; see `Retry-After`.",
}
_REF: Final = "#/components/schemas/{name}"
_DESCRIPTION: Final = """Every fire on time, and accounted for.

Send your key as `Authorization: Bearer KEY`. Lists are `{items, nextCursor}`; an item that cannot be rendered has only
its id and an `error` with a `code` and a `detail`. Times are RFC 3339 in UTC. Errors are `application/problem+json`
with a stable `code` and JSON pointers to invalid values."""


def document(routes: Sequence[Route], version: str, base_path: str = "/") -> dict[str, Any]:
    """Return the document of an API whose routes are below a base path."""
    types = _Types(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, types)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Timeball",
            "version": version,
            "summary": "A distributed job scheduler",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_path.rstrip("/") or "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": types.components,
            "responses": {f"Problem{status}": _problem(text) for status, text in _PROBLEMS.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }


class _Types:
    """The schemas of all types that the routes use."""

    def __init__(self, routes: Sequence[Route]) -> None:
        named = [kind for route in routes for kind in (*_several(route.body), *_several(route.answer))]
        queries = [route.query for route in routes if route.query is not None]
        types = list({repr(kind): kind for kind in [*named, Problem]}.values())
        schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
        self._schemas = {repr(kind): portable(schema) for kind, schema in zip(types, schemas, strict=True)}
        self.components: dict[str, Any] = portable(components)
        _, self._queries = msgspec.json.schema_components(queries, ref_template=_REF)

    def of(self, kinds: Any) -> dict[str, Any]:
        schemas = [self._schemas[repr(kind)] for kind in _several(kinds)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def query(self, route: Route) -> dict[str, dict[str, Any]]:
        properties: dict[str, dict[str, Any]] = {}
        if route.query is not None:
            properties = self._queries[route.query.__name__]["properties"]
        return properties


def _several(kinds: Any) -> tuple[Any, ...]:
    if kinds is None:
        return ()
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _operation(route: Route, types: _Types) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [tag(route)],
        "parameters": [*_path_parameters(route), *_query_parameters(route, types), *_header_parameters(route)],
        "responses": _responses(route, types),
        "x-permission": route.permission.value,
    }
    if route.description:
        operation["description"] = route.description
    if route.permission is Permission.PUBLIC:
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = _request_body(route, types)
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z]+", route.path.removeprefix("/v1"))
    return "".join(
        [route.method.lower(), *(("Legacy" if route.path == "/jobs" else ""), *(w[:1].upper() + w[1:] for w in words))]
    )


def tag(route: Route) -> str:
    first = re.split(r"[/:]", route.path.removeprefix("/v1").removeprefix("/"))[0]
    if not route.path.startswith("/v1"):
        return "legacy" if first == "jobs" else "service"
    return "sessions" if first.startswith("sign-") else first


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if name in _ID_FORMS:
            schema["pattern"] = _ID_FORMS[name]
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(route: Route, types: _Types) -> Iterator[dict[str, Any]]:
    for name, schema in types.query(route).items():
        shown = dict(schema)
        parameter: dict[str, Any] = {"name": name, "in": "query", "schema": shown}
        if description := shown.pop("description", ""):
            parameter["description"] = description
        if shown.get("default") == "":
            del shown["default"]
        yield parameter


def _header_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name, text in route.headers.items():
        yield {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}


def _request_body(route: Route, types: _Types) -> dict[str, Any]:
    schema = types.of(route.body)
    if route.many:
        schema = {"type": "array", "items": schema}
    content: dict[str, Any] = {"schema": schema}
    if route.example is not None:
        content["examples"] = {"example": {"value": route.example}}
    return {"required": not route.body_optional, "content": {"application/json": content}}


def _responses(route: Route, types: _Types) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done." if route.status != 201 else "Created."}
    if route.answer is not None:
        good["content"] = {"application/json": {"schema": types.of(route.answer)}}
    if route.content_type != "application/json":
        good.setdefault("content", {})[route.content_type] = {"schema": {"type": "string"}}
    responses = {str(route.status): good}
    if route.method == "PUT" and route.path.startswith(("/v1/tasks", "/v1/calendars")):
        responses["201"] = {**good, "description": "Created."}
    if route.path.endswith("/result"):
        responses["204"] = {"description": "There is no result, or not yet."}
    for status in sorted(_problem_statuses(route)):
        responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    return responses


def _problem_statuses(route: Route) -> set[int]:
    statuses = {*route.problems, 500, 503}
    if "{" in route.path:
        statuses.add(404)  # a parameter with an encoded slash matches no path
    if route.permission is not Permission.PUBLIC:
        statuses |= {401, 403}
    if route.is_rated:
        statuses.add(429)
    if route.body is not None:
        statuses |= {400, 413, 415, 422}
    if route.query is not None or "{" in route.path:
        statuses.add(422)
    return statuses


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}
