"""The route that cancels, retries or replays all runs that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct, structs

from timeball.api.bodies import BulkBody
from timeball.api.problems import Problem, problem
from timeball.api.routes.runs.dead_letters import CountedAnswer
from timeball.api.routes.runs.runs import chosen_by
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import ids
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import SECOND, render
from timeball.domain.run.status import GAVE_UP, LIVE, RAN, TERMINAL, Status
from timeball.operation.runs import bulk
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.operation.runs.cancel import cancel_runs
from timeball.operation.runs.replay_run import replay_runs
from timeball.operation.runs.retry_run import RETRYABLE, retry_runs
from timeball.ports.store.queries import Match, RunFilter

MAX_REASONS: Final = 10

_POSSIBLE: Final = {"cancel": frozenset(LIVE), "retry": RETRYABLE, "replay": TERMINAL}
"""The statuses in which each action is possible."""
_USUAL: Final = {
    "cancel": frozenset(LIVE),
    "retry": frozenset({Status.RETRYING, *GAVE_UP}),
    "replay": RAN,
}
"""The statuses that are selected if the filter has none."""


class Unchanged(Struct, frozen=True, rename="camel"):
    run_id: str
    error: Problem


class BulkAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    matched: int
    changed: int
    skipped: int
    failed: list[Unchanged]
    """The errors of the first skipped runs."""
    created_before: str
    """Send it in the filter to select the same runs again, without runs that were created since."""


async def change(call: Call) -> Answer:
    body: BulkBody = call.body
    call.audit_selection()
    call.check_edit(body.edit)
    where = bulk.bounded(call.context, _meant(call, body), SECOND if body.action == "cancel" else 0)
    before = where.made_before or ""
    created_before = render(ids.made_at(before))
    if body.dry_run:
        matched = await call.context.store.count_runs(where)
        return answer_json(CountedAnswer(matched=matched, created_before=created_before))

    async def act(matches: Sequence[Match]) -> list[BulkItemResult]:
        match body.action:
            case "cancel":
                return await cancel_runs(call.context, matches)
            case "retry":
                return await retry_runs(call.context, call.tenant, matches, body.edit)
            case "replay":
                return await replay_runs(call.context, call.tenant, matches, before, body.edit)
            case _:
                assert_never(body.action)

    tally = await bulk.over_filter(call.context, where, act)
    return answer_json(
        BulkAnswer(
            matched=tally.matched,
            changed=tally.changed,
            skipped=tally.skipped,
            failed=[
                Unchanged(result.run_id, problem(result.error))
                for result in tally.refused[:MAX_REASONS]
                if result.error
            ],
            created_before=created_before,
        )
    )


def _meant(call: Call, body: BulkBody) -> RunFilter:
    where = chosen_by(body.filter, call.tenant)
    if body.edit is not None and body.action == "cancel":
        raise Invalid("a cancel cannot be combined with an edit", "/edit")
    if impossible := sorted(where.status - _POSSIBLE[body.action]):
        raise Invalid(
            f"cannot {body.action} runs that are {', '.join(impossible)};"
            f" possible are {', '.join(sorted(_POSSIBLE[body.action]))}",
            "/filter/status",
        )
    return structs.replace(where, status=where.status or _USUAL[body.action], unattended=body.action == "retry")


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/runs:bulk",
        permission=Permission.RUN,
        summary="Cancel, retry or replay runs over a filter",
        audit="run.bulk",
        description=(
            f"Processes all runs that match, oldest first, {bulk.STEP} in one transaction; runs that it creates"
            " never match. `dryRun` only counts. Without a status, `cancel` selects all live runs, `retry` those that"
            " failed, died or wait for a retry, `replay` those that succeeded, failed or died. It can be repeated:"
            " `cancel` and `retry` unchanged, `replay` with the `createdBefore` of the first answer in its filter."
        ),
        handle=change,
        body=BulkBody,
        answer=(BulkAnswer, CountedAnswer),
        example={"action": "retry", "filter": {"status": "failed", "tag": "etl"}, "dryRun": True},
    ),
)
