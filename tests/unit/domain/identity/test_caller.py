"""A role grants what it says, each role more than the one before, and scopes only take away."""

from itertools import pairwise

import pytest

from timeball.domain.errors import Forbidden
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import OF_ALL, Permission
from timeball.domain.identity.role import GRANTS, Role


def caller(role: Role, *scopes: Permission) -> Caller:
    return Caller(
        tenant="default", role=role, scopes=frozenset(scopes) or None, kind="key", credential_id="k_1", name="laptop"
    )


def test_each_role_of_a_tenant_grants_more_than_the_one_before() -> None:
    steps = [GRANTS[role] for role in ("viewer", "operator", "editor", "admin")]
    assert [[*(more - less)] for less, more in pairwise(steps)] == [["run"], ["edit"], ["admin"]]
    assert all(less < more for less, more in pairwise(steps))


def test_only_the_role_system_manages_the_fleet_and_only_workers_execute() -> None:
    assert [role for role, granted in GRANTS.items() if Permission.SYSTEM in granted] == ["system"]
    assert [role for role, granted in GRANTS.items() if Permission.WORKER in granted] == ["worker", "system"]
    assert GRANTS["worker"] == {*OF_ALL, Permission.WORKER}


@pytest.mark.parametrize("role", GRANTS)
def test_scopes_take_permissions_away_and_add_none(role: Role) -> None:
    for scope in Permission:
        limited = caller(role, scope)
        assert limited.permissions == GRANTS[role] & {scope, *OF_ALL}
        for permission in Permission:
            assert limited.may(permission) == (permission in limited.permissions)


def test_a_refusal_names_the_role_and_the_permission() -> None:
    with pytest.raises(Forbidden, match="a key with the role 'viewer' has no 'run' permission"):
        caller("viewer").require(Permission.RUN)
    with pytest.raises(Forbidden, match="a key with the role 'admin' and limited scopes has no 'edit' permission"):
        caller("admin", Permission.READ).require(Permission.EDIT)
