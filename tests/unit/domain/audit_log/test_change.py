"""One request leaves one entry, about what it names."""

import msgspec

from timeball.domain.audit_log.change import MAX_NAMED, AuditedChange, AuditedRequest, entry_of
from timeball.domain.audit_log.entry import NO_HASH, Actor, AuditEntry, ChainHead, hash_of

HEAD = ChainHead("acme", 4, "f" * 64)


def request(**fields: object) -> AuditedRequest:
    actor = Actor(kind="key", id="k_1", name="alice", user_id="u_1")
    return msgspec.structs.replace(
        AuditedRequest(tenant="acme", actor=actor, address="::1", action="job.pause"), **fields
    )


def change(ident: str, resource: str = "job") -> AuditedChange:
    return AuditedChange(resource, ident, lambda: ({"id": ident, "a": 1}, {"id": ident, "a": 2}))


def entry(changes: list[AuditedChange], **fields: object) -> AuditEntry:
    return entry_of(request(**fields), changes, HEAD, 7)


def test_an_entry_continues_the_chain() -> None:
    made = entry([change("j_1")])
    assert (made.chain, made.seq, made.previous, made.at) == ("acme", 5, "f" * 64, 7)
    assert made.hash == hash_of(made)
    assert entry_of(request(), [change("j_1")], ChainHead("acme", 0, NO_HASH), 7).seq == 1


def test_a_request_without_a_name_is_about_its_only_change() -> None:
    made = entry([change("j_1")])
    assert (made.resource, made.resource_id, made.before, made.after) == ("job", "j_1", '{"a":1}', '{"a":2}')


def test_a_request_is_about_what_its_path_names() -> None:
    made = entry([change("r_1", "run"), change("j_1")], resource="job", resource_id="j_1")
    assert (made.resource, made.resource_id, made.after) == ("job", "j_1", '{"a":2}')


def test_a_request_that_changed_only_other_things_names_them() -> None:
    made = entry([change("r_1", "run"), change("r_2", "run")], resource="job", resource_id="j_1")
    assert (made.resource, made.resource_id, made.after) == ("job", "j_1", '{"count":2,"runs":["r_1","r_2"]}')


def test_a_request_that_changed_one_other_thing_describes_it() -> None:
    made = entry([AuditedChange("run", "r_1", lambda: (None, {"status": "queued"}))], resource="job", resource_id="j_1")
    assert (made.resource, made.resource_id, made.after) == ("job", "j_1", '{"run":"r_1","status":"queued"}')


def test_an_entry_has_the_details_of_its_request() -> None:
    made = entry([change("r_1", "run")], resource="run", resource_id="r_1", details={"edit": {"timeout": "1h"}})
    assert (made.before, made.after) == ('{"a":1}', '{"a":2,"edit":{"timeout":"1h"}}')


def test_a_request_on_many_things_has_its_selection() -> None:
    made = entry([change("j_1"), change("j_2")], selection={"action": "pause", "filter": {"tag": "etl"}})
    assert (made.resource, made.resource_id) == ("job", "")
    assert (made.before, made.after) == (None, '{"action":"pause","filter":{"tag":"etl"}}')


def test_a_request_on_many_things_by_their_ids_names_at_most_a_thousand() -> None:
    made = entry([change("r_1", "run")], selection={"runIds": [f"r_{at}" for at in range(MAX_NAMED + 5)], "all": False})
    assert made.after is not None
    after = msgspec.json.decode(made.after)
    assert (after["count"], len(after["runIds"]), after["all"]) == (MAX_NAMED + 5, MAX_NAMED, False)


def test_a_batch_names_at_most_a_thousand_things() -> None:
    made = entry([change(f"j_{at}") for at in range(MAX_NAMED + 5)])
    assert made.after is not None
    after = msgspec.json.decode(made.after)
    assert (after["count"], len(after["jobs"])) == (MAX_NAMED + 5, MAX_NAMED)
