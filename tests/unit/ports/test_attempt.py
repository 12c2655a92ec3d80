"""The identity of an attempt is the same in each type that carries it."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from msgspec import structs
from msgspec.json import decode, encode

from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.attempt import AttemptIdentity, AttemptWithLocks
from timeball.ports.store.runs import Claim, Settlement
from timeball.ports.worker_protocol import Assignment, Ended, Report
from timeball.server.worker_gateway.assignments import assignment_of
from timeball.server.worker_gateway.delivery import released
from timeball.worker.assignment import Reader
from timeball.worker.attempt import HeldAttempt
from timeball.worker.report_queue import ReportContent, ReportQueue

FIELDS = AttemptWithLocks.__struct_fields__
CLAIM = Claim(
    run_id="r_1",
    job_id="j_1",
    attempt=2,
    token=7,
    serial=True,
    turn=("tenant", "key"),
    session="w_1",
    poll=3,
    fire_time=4,
    eligible_at=5,
    spec=b'{"task":{"kind":"shell","command":"true"}}',
    task=None,
    tenant="tenant",
)


def identity(attempt: Any) -> dict[str, Any]:
    return {name: getattr(attempt, name) for name in FIELDS}


def held(assignment: Assignment) -> HeldAttempt:
    outbox: Any = ReportQueue.__new__(ReportQueue)
    attempt = HeldAttempt.of(assignment, Reader({}).read(assignment), outbox)
    attempt.outcome = Succeeded()
    return attempt


def reported(attempt: HeldAttempt) -> Report:
    return ReportContent(ended=[attempt]).report("w_1", 1, 0, room={}, now=9)


def test_an_attempt_keeps_its_identity_from_the_claim_to_the_settlement() -> None:
    """A field that a conversion forgets has another value at the next station: none of these is a default."""
    defaults = {field.name: field.default for field in structs.fields(AttemptWithLocks)}
    assert all(getattr(CLAIM, name) != default for name, default in defaults.items())
    assignment = assignment_of(CLAIM, now=5)
    attempt = held(assignment)
    (ended,) = reported(attempt).ended
    settled = Settlement.of(ended, "w_1", ended.outcome, started_at=None, finished_at=9)
    assert [identity(each) for each in (assignment, ended, settled)] == [identity(CLAIM)] * 3
    assert {name: getattr(attempt, name) for name in AttemptIdentity.__struct_fields__} == {
        name: getattr(CLAIM, name) for name in AttemptIdentity.__struct_fields__
    }
    given_back = released(CLAIM, now=9)
    assert (identity(given_back), given_back.session) == (identity(CLAIM), CLAIM.session)


def test_a_worker_learns_the_tenant_which_is_omitted_if_it_is_the_default_one() -> None:
    assert held(assignment_of(CLAIM, now=5)).tenant == "tenant"
    stored = "".join(list(DEFAULT_TENANT))  # not the same object, like a value from the store
    sent = encode(assignment_of(structs.replace(CLAIM, tenant=stored), now=5))
    assert b"enant" not in sent.replace(b'"turn":["tenant","key"]', b"")
    assert held(decode(sent, type=Assignment)).tenant == DEFAULT_TENANT


@pytest.mark.parametrize("message", [Assignment, Ended])
def test_messages_declare_the_fields_of_an_attempt_with_its_types(message: type[AttemptIdentity]) -> None:
    """They declare two of them where these stand on the wire, and bounds for what a worker sends."""
    declared, meant = (get_type_hints(each) for each in (message, AttemptWithLocks))
    assert {name: declared[name] for name in FIELDS} == {name: meant[name] for name in FIELDS}
    assert [_default(message, name) for name in FIELDS] == [_default(AttemptWithLocks, name) for name in FIELDS]


@pytest.mark.parametrize("attempt", [Claim, Settlement])
def test_the_store_knows_attempts_by_inheritance_only(attempt: type[AttemptWithLocks]) -> None:
    assert attempt.__struct_fields__[: len(FIELDS)] == FIELDS
    assert not set(FIELDS) & set(attempt.__annotations__)


def _default(kind: type[Any], name: str) -> Any:
    return next(field.default for field in structs.fields(kind) if field.name == name)
