"""From the claims of a token to a tenant, a role and a user."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.tokens import AUDIENCE, ISSUER, NOW, claims
from timeball.domain.errors import Unauthorized
from timeball.domain.identity.token_claims import ClaimRules, identify
from timeball.domain.instant import HOUR, SECOND

RULES = ClaimRules(issuer=ISSUER, audience=AUDIENCE, max_lifetime=HOUR)
GROUPS = {"staff": "viewer", "ops": "operator", "platform": "admin", "root": "system"}


def found(rules: ClaimRules = RULES, nonce: str | None = None, **changed: Any) -> Any:
    return identify(claims(**changed), rules, NOW * SECOND, nonce=nonce)


@pytest.mark.parametrize("role", ["viewer", "operator", "editor", "admin"])
def test_a_claim_names_a_role_itself(role: str) -> None:
    assert found(role=role).role == role
    assert found(role=[role]).role == role


@pytest.mark.parametrize(
    ("value", "role"),
    [
        ("staff", "viewer"),
        (["staff", "platform", "ops"], "admin"),
        (["unknown", "staff", None, {"a": 1}], "viewer"),
        (["root", "staff"], "system"),
        ("admin", None),
        ("viewer", None),
        (["Platform"], None),
        (True, None),
        (None, None),
    ],
)
def test_with_a_mapping_only_its_values_stand_for_roles(value: Any, role: str | None) -> None:
    rules = replace(RULES, roles=GROUPS, role_claim="groups")
    if role is None:
        with pytest.raises(Unauthorized, match="groups"):
            found(rules, groups=value)
    else:
        assert found(rules, groups=value).role == role


def test_a_claim_is_found_by_its_name_and_else_by_its_path() -> None:
    nested = {"resource_access": {"timeball": {"roles": ["operator"]}}}
    assert found(replace(RULES, role_claim="resource_access.timeball.roles"), **nested).role == "operator"
    named = {"https://example.org/role": "viewer", "https://example": {"org/role": "admin"}}
    assert found(replace(RULES, role_claim="https://example.org/role"), **named).role == "viewer"
    for wrong in ("resource_access", "resource_access.other.roles", "resource_access.timeball.roles.0", "."):
        with pytest.raises(Unauthorized):
            found(replace(RULES, role_claim=wrong), **nested)


def test_the_tenant_comes_from_its_claim_or_is_the_same_for_all() -> None:
    assert found(tenant="acme").tenant == "acme"
    assert found(replace(RULES, tenant_claim="org"), org="acme", tenant="other").tenant == "acme"
    assert found(replace(RULES, tenant="fixed"), tenant="other").tenant == "fixed"


def test_the_user_comes_from_its_claim_and_the_subject_is_still_required() -> None:
    rules = replace(RULES, user_claim="email")
    assert found(rules, email="ada@example.org").subject == "ada@example.org"
    with pytest.raises(Unauthorized, match="'sub'"):
        found(rules, email="ada@example.org", sub=None)
    with pytest.raises(Unauthorized, match="'email'"):
        found(rules)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"name": "Ada"}, "Ada"),
        ({"name": "", "preferred_username": "ada"}, "ada"),
        ({"name": "x" * 300, "email": "ada@example.org"}, "ada@example.org"),
        ({"name": "a\x1b[31mb"}, "user-1"),
        ({"name": None}, "user-1"),
    ],
)
def test_the_name_is_the_first_that_can_be_shown(given: dict[str, Any], name: str) -> None:
    assert found(**given).name == name


def test_an_id_token_belongs_to_its_sign_in_and_its_client() -> None:
    token = claims(nonce="n1", aud=[AUDIENCE, "api"], azp=AUDIENCE)
    assert identify(token, RULES, NOW * SECOND, nonce="n1").subject == "user-1"
    for wrong in ({"nonce": "n2"}, {"nonce": None}, {"nonce": ["n1"]}, {"azp": "another"}):
        with pytest.raises(Unauthorized):
            identify(claims(**{"nonce": "n1", **wrong}), RULES, NOW * SECOND, nonce="n1")
