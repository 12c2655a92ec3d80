"""Converts JSON schemas into a form that client generators read.

msgspec's schemas are valid JSON Schema, but openapi-python-client 0.29 rejects three of their forms. Each is replaced
by an equivalent form that it reads, as does openapi-typescript; `tests/acceptance/test_generated_clients.py` generates
clients.
"""

from __future__ import annotations

from typing import Any

import msgspec


def portable(schema: Any) -> Any:
    """Return a copy of the schema with three changes, also in the schemas that it contains:

    - `items: false` of a tuple is removed. It repeats the `maxItems` beside `prefixItems`.
    - `items: {}` is added to an array without `items`. JSON Schema allows such an array, the generators do not.
    - A default that is an object is removed from a reference, because generated classes cannot have such a default. The
      description names it instead.
    """
    if isinstance(schema, list):
        return [portable(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: portable(member) for name, member in schema.items()}
    if made.get("type") == "array":
        if "prefixItems" not in made:
            made.setdefault("items", {})
        elif made.get("items") is False and made.get("maxItems") == len(made["prefixItems"]):
            del made["items"]
    if isinstance(made.get("default"), dict) and ("$ref" in made or "anyOf" in made):
        _describe_default(made)
    return made


def _describe_default(schema: dict[str, Any]) -> None:
    default = schema.pop("default")
    if default:  # an empty object is not described: all its members have their own defaults
        sentence = f"Default: `{msgspec.json.encode(default).decode()}`."
        schema["description"] = f"{schema.get('description', '')} {sentence}".lstrip()
