"""`/docs`: the OpenAPI document as one HTML page, without scripts, fonts or requests to other servers."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib import resources
from typing import Any, Final

import msgspec

from timeball.api.problems import STATUSES, UNEXPECTED
from timeball.domain.errors import TimeballError

_METHODS: Final = ("get", "post", "put", "patch", "delete")


def docs_page(document: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the page, and its content security policy, which allows only the page's own style."""
    style = resources.files("timeball.api.documentation").joinpath("docs.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return _Page(document).render(style).encode(), policy.encode()


class _Page:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._schemas: dict[str, Any] = document["components"]["schemas"]
        self._by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
        for path, methods in document["paths"].items():
            for method in _METHODS:
                if method in methods:
                    operation = methods[method]
                    self._by_tag.setdefault(operation["tags"][0], []).append((method, path, operation))

    def render(self, style: str) -> str:
        info = self._document["info"]
        tags = [tag for tag in self._document["tags"] if tag["name"] in self._by_tag]
        links = "".join(f'<a href="#{tag["name"]}">{_title(tag["name"])}</a>' for tag in tags)
        sections = "".join(self._section(tag["name"], tag["description"]) for tag in tags)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{_text(info['title'])} API</title><style>{style}</style></head><body>"
            f'<nav><a class="brand" href="#top">{_text(info["title"])}</a>{links}'
            '<a href="#types">Types</a><a href="#problems">Errors</a><a href="openapi.json">openapi.json</a></nav>'
            f'<main id="top"><header><h1>{_text(info["title"])} API <small>{_text(info["version"])}</small></h1>'
            f"{_prose(info['description'])}</header>{sections}{self._types()}{_problems()}</main></body></html>"
        )

    def _section(self, tag: str, description: str) -> str:
        operations = "".join(self._operation(*found) for found in self._by_tag[tag])
        return (
            f'<section id="{tag}"><h2>{_title(tag)}</h2><p class="lead">{_text(description)}</p>{operations}</section>'
        )

    def _operation(self, method: str, path: str, operation: dict[str, Any]) -> str:
        parts = [_prose(operation.get("description", ""))]
        if operation["parameters"]:
            rows = "".join(self._parameter(parameter) for parameter in operation["parameters"])
            parts.append(f"<h4>Parameters</h4><table>{rows}</table>")
        if body := operation.get("requestBody"):
            content = body["content"]["application/json"]
            parts.append(f"<h4>Body</h4><p>{self._kind(content['schema'])}</p>")
            parts += [_example(method, path, found["value"]) for found in content.get("examples", {}).values()]
        rows = "".join(self._response(status, answer) for status, answer in operation["responses"].items())
        parts.append(f"<h4>Answers</h4><table>{rows}</table>")
        return (
            f'<details class="operation" id="{operation["operationId"]}"><summary>'
            f'<span class="method {method}">{method.upper()}</span><code>{_text(path)}</code>'
            f'<span class="summary">{_text(operation["summary"])}</span>'
            f'<span class="permission">{_text(operation["x-permission"])}</span></summary>'
            f'<div class="body">{"".join(parts)}</div></details>'
        )

    def _parameter(self, parameter: dict[str, Any]) -> str:
        return (
            f"<tr><th><code>{_text(parameter['name'])}</code></th><td>{_text(parameter['in'])}</td>"
            f"<td>{self._kind(parameter['schema'])}</td><td>{_inline(parameter.get('description', ''))}</td></tr>"
        )

    def _response(self, status: str, answer: dict[str, Any]) -> str:
        if "$ref" in answer:
            answer = self._document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        content = answer.get("content", {})
        kinds = ", ".join(
            self._kind(found["schema"]) if kind == "application/json" else _text(kind)
            for kind, found in content.items()
        )
        return f"<tr><th>{_text(status)}</th><td>{_inline(answer['description'])}</td><td>{kinds}</td></tr>"

    def _kind(self, schema: dict[str, Any]) -> str:
        """Return a short description of a schema, with links to the types that it names."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return f'<a href="#type-{_text(name)}">{_text(name)}</a>'
        if "anyOf" in schema:
            return " or ".join(self._kind(choice) for choice in schema["anyOf"])
        if "enum" in schema:
            return " | ".join(f"<code>{_text(str(value))}</code>" for value in schema["enum"])
        if schema.get("type") == "array":
            members = schema.get("prefixItems") or [schema.get("items", {})]
            return f"array of {', '.join(self._kind(member) for member in members)}"
        limits = [f"{word} {schema[name]}" for name, word in _LIMITS.items() if name in schema]
        return _text(", ".join([schema.get("type", "any JSON"), *limits]))

    def _types(self) -> str:
        types = "".join(self._type(name, schema) for name, schema in sorted(self._schemas.items()))
        return f'<section id="types"><h2>Types</h2>{types}</section>'

    def _type(self, name: str, schema: dict[str, Any]) -> str:
        required = set(schema.get("required", ()))
        rows = "".join(
            f"<tr><th><code>{_text(field)}</code></th><td>{self._kind(found)}</td>"
            f"<td>{_fact(field in required, found)}</td><td>{_inline(found.get('description', ''))}</td></tr>"
            for field, found in schema.get("properties", {}).items()
        )
        body = f"<table>{rows}</table>" if rows else f"<p>{self._kind(schema)}</p>"
        about = _prose(schema.get("description", ""))
        return f'<article id="type-{_text(name)}"><h3>{_text(name)}</h3>{about}{body}</article>'


_LIMITS: Final = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤"}


def _fact(required: bool, schema: dict[str, Any]) -> str:
    if required:
        return "required"
    default = schema.get("default")
    return (
        "" if default in (None, "", [], {}) else f"default <code>{_text(msgspec.json.encode(default).decode())}</code>"
    )


def _example(method: str, path: str, value: Any) -> str:
    pretty = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    address = f"curl -X {method.upper()} http://127.0.0.1:1300{path}"
    command = f"{address} \\\n  -H \"Authorization: Bearer $KEY\" \\\n  -d '{pretty}'"
    return f"<pre>{_text(command)}</pre>"


def _problems() -> str:
    rows = {_code(kind): (status, title) for kind, (status, title) in STATUSES.items()} | {"internal": UNEXPECTED}
    body = "".join(
        f'<tr id="problem-{code}"><th><code>{code}</code></th><td>{status}</td><td>{_text(title)}</td></tr>'
        for code, (status, title) in sorted(rows.items(), key=lambda row: row[1][0])
    )
    lead = '<p class="lead">The stable <code>code</code> of each problem.</p>'
    return f'<section id="problems"><h2>Errors</h2>{lead}<table>{body}</table></section>'


def _code(kind: type[Exception]) -> str:
    return kind.code if issubclass(kind, TimeballError) else "session_lost"


def _title(tag: str) -> str:
    return _text(
        "Worker protocol"
        if tag == "worker"
        else "API keys"
        if tag == "api-keys"
        else tag.replace("-", " ").capitalize()
    )


def _text(value: str) -> str:
    return html.escape(value)


def _inline(value: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(value))


def _prose(value: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in value.split("\n\n") if part.strip())
