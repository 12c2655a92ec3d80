"""Routes only read the store. Every write of a route goes through an operation, which has the rules of that write, and
leaves an entry in the audit log."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from timeball import api
from timeball.api.app import ROUTES
from timeball.ports.store.store import Store

API = Path(api.__file__).parent

READS = {
    *("now", "clock_state", "planning_held", "verdicts_until", "ping", "listen", "watch_changes", "listen_to_servers"),
    *(
        "answered",
        "slot_for",
        "jobs",
        "list_jobs",
        "match_jobs",
        "count_jobs",
        "busy_jobs",
        "firing_jobs",
        "mean_durations",
    ),
    *("due_jobs", "planning_failures", "upstream_events", "cancelled_ahead", "next_plan_at"),
    *("pauses_over", "next_resume_at", "backfills_to_advance", "backfills", "list_backfills"),
    *("runs", "list_runs", "count_runs", "match_runs", "specs", "dead_letter_groups", "current_run", "attempts"),
    *("first_attempts", "ledger", "ledger_sums", "logs", "finished_in", "output_in", "referred_to"),
    *("circumstances", "standing", "run_marks", "next_eligible_at", "holding", "held", "worker_orders"),
    *("pause_orders", "preemptions", "next_look_at", "next_expiry", "lapsed", "unreported", "workers"),
    *("gone_workers", "next_workflow_at", "workflow_run", "workflow_runs_of", "days_to_prune"),
    *("statistics", "present", "fleet_state", "count_starts", "jobs_with_tag", "upcoming", "attention_facts", "use"),
    *("has_sign_in_token", "session_by_digest", "list_sessions"),
    *("sampled_runs", "lane_jobs", "lane_runs", "lane_counts", "schedules_of", "recent_runs", "versions"),
    *("audited", "audit_log", "audit_entries", "audit_head", "audit_end", "audit_chains"),
    *("deletions", "owned_by"),
    *("usage", "price_lists", "usage_counted_until"),
    *("tenant", "tenants", "tenant_limits", "quota_use", "list_tenants", "user", "user_by_subject", "list_users"),
    *("key", "list_keys"),
    *("key_by_digest", "keys", "task", "list_tasks", "calendars", "list_calendars"),
}
WRITES = {
    *("open", "close", "probe_write", "wake_all", "send_to_servers", "accept_clock"),
    *("submit", "submit_and_claim", "amend", "trigger", "put_off", "plan_failed_now", "commit_plans"),
    *("apply_upstream_events", "begin_backfill", "advance_backfills", "cancel_backfill"),
    *("share_workers", "enforce_quotas", "claim", "settle", "note", "append_logs", "request_cancel"),
    *("retry_now", "replace_output", "number"),
    *("repeat", "repeat_dead_letters", "replay", "discard", "preempt", "note_pauses"),
    *("open_gates", "expire", "forget_unused", "advance_workflows"),
    *("register", "drain", "renew", "give_back", "end_session", "forget_sessions"),
    *("record_statistics", "forget_statistics"),
    *("lead", "prepare_days", "count_usage", "recount_stored_bytes", "prune_day", "forget_keys", "forget_versions"),
    *("create_tenant", "update_tenant", "create_user", "update_user", "delete_user", "note_uses", "rotate_key"),
    *("begin_deletion", "stop_jobs", "note_deletion", "delete_rows", "end_deletion"),
    *("add_key", "revoke_key", "allow_bootstrap_key"),
    *("add_sign_in_token", "exchange_token", "open_web_session", "open_user_session", "use_session", "revoke_session"),
    *("put_task", "delete_task", "put_calendar", "delete_calendar"),
}
WITHOUT_ENTRY = {
    "POST /v1/schedules:preview": "changes nothing",
    "POST /v1/calendars:preview": "changes nothing",
    "POST /v1/sign-in/provider": "stores nothing",
    "POST /v1/sign-in-links": "lasts 10 minutes, and can do what its key can",
    "POST /v1/worker/poll": "of a worker",
    "POST /v1/worker/report": "of a worker",
    "POST /v1/worker/beat": "of a worker",
    "POST /v1/worker/hello": "of a worker",
    "POST /v1/worker/goodbye": "of a worker",
}
"""Routes that leave no entry in the audit log although they are not read with GET, each with the reason."""
COMMON = {"open", "close", "discard", "note", "number", "submit"}
"""Names that other values have, too: they count where the value is called a store."""


def port() -> set[str]:
    return {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}


def writes_in(source: str) -> Iterator[tuple[int, str]]:
    """Every attribute with the name of a write, on whatever value: the store may have any name there."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or node.attr not in WRITES:
            continue
        if node.attr not in COMMON or ast.unparse(node.value).endswith("store"):
            yield node.lineno, ast.unparse(node)


def test_every_method_of_the_store_is_known_to_read_or_to_write() -> None:
    assert not READS & WRITES
    assert port() == READS | WRITES


def test_a_route_that_changes_something_names_its_action_in_the_audit_log() -> None:
    changing = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"}
    audited = {f"{route.method} {route.path}" for route in ROUTES if route.audit}
    assert changing - audited == WITHOUT_ENTRY.keys()
    assert audited <= changing


@pytest.mark.parametrize("module", sorted(str(path.relative_to(API)) for path in API.rglob("*.py")))
def test_no_route_writes_to_the_store_by_itself(module: str) -> None:
    assert list(writes_in((API / module).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "async def put(call): await call.context.store.put_task(task)",
        "async def put(store): await store.put_task(task)",
        "async def put(call): await call.context.store.submit([put_task])",
        "async def put(call):\n    save = call.context.store.put_task\n    await save(task)",
    ],
)
def test_a_route_that_wrote_by_itself_would_be_found(source: str) -> None:
    assert len(list(writes_in(source))) == 1
