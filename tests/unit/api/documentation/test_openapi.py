"""The permissions, the OpenAPI document and the page for people all follow from one table of routes."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from timeball.api import problems
from timeball.api.app import ROUTES
from timeball.api.documentation import openapi
from timeball.api.documentation.docs_page import docs_page
from timeball.domain import errors
from timeball.domain.errors import TimeballError
from timeball.domain.identity.permission import Permission

ASKS_WITH_A_BODY = {"/v1/calendars:preview", "/v1/schedules:preview"}
SIGNS_ITSELF_IN = "/v1/sign-in-links"
"""The link signs in with the credential that creates it, and can do no more."""
SIGN_IN = "/v1/sign-in"
SIGN_IN_PROVIDER = "/v1/sign-in/provider"
OPEN = {"/livez", "/readyz", "/openapi.json", "/docs", SIGN_IN, SIGN_IN_PROVIDER}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi.document(ROUTES, "1.2.3")))
    return made


def test_every_route_states_a_permission_and_only_these_are_open() -> None:
    for route in ROUTES:
        assert isinstance(route.permission, Permission), f"{route.method} {route.path} has no permission"
    assert {route.path for route in ROUTES if route.permission is Permission.PUBLIC} == OPEN


def test_public_routes_change_nothing() -> None:
    """To sign in, a browser sends a credential in the body. To begin that at a provider, it sends a POST, so that no
    page of another site can do so, but nothing is stored."""
    writes = [route for route in ROUTES if route.permission is Permission.PUBLIC and route.method != "GET"]
    assert [(route.method, route.path) for route in writes] == [("POST", SIGN_IN), ("POST", SIGN_IN_PROVIDER)]


def test_reading_is_get_and_writing_is_not() -> None:
    for route in ROUTES:
        if route.permission is Permission.READ and route.path != SIGNS_ITSELF_IN:
            assert route.method == ("POST" if route.path in ASKS_WITH_A_BODY else "GET"), route.path
        if route.permission in (Permission.RUN, Permission.EDIT):
            assert route.method != "GET", route.path


def test_no_route_is_stated_twice() -> None:
    stated = [(route.method, route.path) for route in ROUTES]
    assert len(stated) == len(set(stated))


def test_every_operation_is_documented(document: dict[str, Any]) -> None:
    operations = [found for methods in document["paths"].values() for found in methods.values()]
    assert len(operations) == len(ROUTES)
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for operation in operations:
        assert operation["summary"]
        assert "503" in operation["responses"]
        needs_credential = operation.get("security") != [] or operation["operationId"] == "postSignIn"
        assert ("401" in operation["responses"]) == needs_credential


def test_every_path_parameter_is_declared(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            declared = {found["name"] for found in operation["parameters"] if found["in"] == "path"}
            assert declared == set(re.findall(r"\{(\w+)\}", path))


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = msgspec.json.encode(document).decode()
    for reference in set(re.findall(r'"\$ref":"([^"]+)"', text)):
        at: Any = document
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
        assert at


def test_generators_find_only_what_they_read(document: dict[str, Any]) -> None:
    """Component names that are names of classes, each once, and no schema that is a boolean or a class's default."""
    schemas = document["components"]["schemas"]
    titles = [schema.get("title", name) for name, schema in schemas.items()]
    assert len(titles) == len(set(titles))
    assert [name for name in schemas if not name.isidentifier()] == []
    for schema in objects(schemas):
        if schema.get("type") == "array":
            assert isinstance(schema.get("items", schema.get("prefixItems")), dict | list), schema
        assert not (isinstance(schema.get("default"), dict) and {"$ref", "anyOf"} & schema.keys()), schema


def test_tuples_have_as_many_members_as_types(document: dict[str, Any]) -> None:
    tuples = [schema for schema in objects(document) if "prefixItems" in schema]
    assert tuples
    for schema in tuples:
        assert schema["minItems"] == schema["maxItems"] == len(schema["prefixItems"])


@pytest.mark.parametrize(
    "given",
    [
        {"followJob": "load"},
        {"followJob": {"job": "load", "on": "failed"}},
        {"window": {"from": "01:00", "to": "05:00", "days": ["MON"]}},
    ],
)
def test_short_forms_of_a_schedule_are_documented(document: dict[str, Any], given: dict[str, Any]) -> None:
    job = {"name": "report", "task": {"kind": "shell", "command": "true"}, **given}
    for path, method in (("/v1/jobs", "post"), ("/v1/jobs/{jobId}", "patch")):
        body = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
        assert jsonschema_rs.is_valid({**body, "components": document["components"]}, job), path
    wrong = {**job, next(iter(given)): {"unknown": 1}}
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert not jsonschema_rs.is_valid({**body, "components": document["components"]}, wrong)


def test_a_default_that_generators_cannot_read_stands_in_the_description(document: dict[str, Any]) -> None:
    schedule = document["components"]["schemas"]["CanonicalJob"]["properties"]["schedule"]
    assert schedule["description"] == 'Default: `{"type":"immediate"}`.'


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """It and what is in it."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from objects(member)


def test_schemas_are_valid_and_examples_match_them(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if not content:
                continue
            schema = {**content["schema"], "components": document["components"]}
            checker = jsonschema_rs.Draft202012Validator(schema)
            for example in content.get("examples", {}).values():
                if example["value"] == {} or "CRON" in str(example["value"]):
                    continue  # another spelling of the canonical shape
                checker.validate(example["value"])


def test_every_error_has_a_status_and_a_documented_code(document: dict[str, Any]) -> None:
    page = docs_page(document)[0].decode()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TimeballError)]
    for kind in kinds:
        if kind is TimeballError:
            continue
        assert kind in problems.STATUSES, f"{kind.__name__} has no status"
        assert f'id="problem-{kind.code}"' in page


def test_the_page_needs_nothing_from_elsewhere(document: dict[str, Any]) -> None:
    page, policy = docs_page(document)
    text = page.decode()
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert b"default-src 'none'" in policy
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in text


def test_every_link_of_the_page_leads_somewhere(document: dict[str, Any]) -> None:
    text = docs_page(document)[0].decode()
    anchors = set(re.findall(r'id="([^"]+)"', text))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in anchors
