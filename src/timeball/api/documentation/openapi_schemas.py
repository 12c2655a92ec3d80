"""Converts JSON schemas into a form that client generators read.

msgspec's schemas are valid JSON Schema, but openapi-python-client 0.29 rejects three of their forms. Each is replaced
by an equivalent form that it reads, as does openapi-typescript; `tests/acceptance/test_generated_clients.py` generates
clients.
"""

from __future__ import annotations

from typing import Any

import msgspec


def portable(schema: Any) -> Any:
    """Return the schema, and all schemas in it, with three replacements:

    - a tuple without `items: false`, which only repeats the `maxItems` beside `prefixItems`;
    - an array of any values with `items: {}`, which JSON Schema alone allows to omit;
    - a reference without a default that is an object, because no generated class has such a default. The description
      names the default instead.
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
    if default:  # an empty object adds nothing to the defaults of its members
        sentence = f"Default: `{msgspec.json.encode(default).decode()}`."
        schema["description"] = f"{schema.get('description', '')} {sentence}".lstrip()
