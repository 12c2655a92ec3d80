"""Routes of dead letters: runs that used up their retries. They can be listed, retried and discarded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType, structs

from timeball.api.bodies import DeadLetterFilter, DeadLetterSelection, RetryDeadLetters
from timeball.api.problems import Problem, problem
from timeball.api.query import DeadLetterGroupsQuery, DeadLettersQuery, run_filter
from timeball.api.routes.runs.runs import RunList, answer_runs, chosen_by
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.domain import ids
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.operation.find import find_job
from timeball.operation.runs import bulk
from timeball.operation.runs.bulk import Act, Tally
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.operation.runs.discard import discard
from timeball.operation.runs.retry_run import retry_runs
from timeball.ports.store.queries import DeadLetterGroup, Match, RunFilter

_CHOICES: Final = '{"runIds": […]}, {"filter": {…}} or {"fingerprint": "…"}'


class GroupView(Struct, frozen=True, rename="camel", kw_only=True):
    """A group of dead letters with the same error."""

    fingerprint: str
    """Selects the group in filters. `none`: the dead letters that ended before Timeball stored fingerprints."""
    count: int
    kind: str | None
    message: str | None
    """The error message of the newest dead letter in the group."""
    jobs: int
    """Number of jobs that the dead letters of the group belong to."""
    first_at: str
    """When the first dead letter of the group used up its retries."""
    last_at: str
    example_run_id: str


class GroupList(Struct, frozen=True, rename="camel", kw_only=True):
    items: list[GroupView]
    counted: int
    """Number of dead letters that were read, newest first."""
    more: bool
    """True if there are older dead letters that were not read."""


class DeadLetterResult(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    retried_as: str | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class CountedAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    """The answer to a `dryRun`."""

    matched: int
    created_before: str | UnsetType = UNSET
    """Send it in the filter to select the same jobs or runs again, without those that were created since."""


class RetriedAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    matched: int
    retried: int
    skipped: int
    items: list[DeadLetterResult] | UnsetType = UNSET
    """The result of each run; absent if there are more than `MAX_LISTED_RESULTS`."""


class DiscardedAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    matched: int
    discarded: int
    skipped: int
    items: list[DeadLetterResult] | UnsetType = UNSET


async def list_dead_letters(call: Call) -> Answer:
    query: DeadLettersQuery = call.query
    return await answer_runs(call, structs.replace(run_filter(query, call.tenant), dead_letters=True), query)


async def groups(call: Call) -> Answer:
    query: DeadLetterGroupsQuery = call.query
    found = await call.context.store.dead_letter_groups(run_filter(query, call.tenant), query.limit, may_lag=True)
    shown = rows(found.groups, _group_view, "fingerprint", lambda group: group.fingerprint)
    return answer_json({"items": shown, "counted": found.counted, "more": found.more})


def _group_view(group: DeadLetterGroup) -> GroupView:
    return GroupView(
        fingerprint=group.fingerprint,
        count=group.letters,
        kind=None if group.failure is None else group.failure.kind,
        message=None if group.failure is None else group.failure.message,
        jobs=group.jobs,
        first_at=render(group.first_at),
        last_at=render(group.last_at),
        example_run_id=group.newest,
    )


async def retry(call: Call) -> Answer:
    body: RetryDeadLetters = call.body
    call.audit_selection()
    call.check_edit(body.edit)

    async def act(matches: Sequence[Match]) -> list[BulkItemResult]:
        named = bool(body.run_ids)
        return await retry_runs(call.context, call.tenant, matches, body.edit, only_dead_letters=not named)

    if body.dry_run:
        return await _count(call, body)
    tally = await _over(call, body, act)
    return answer_json(
        RetriedAnswer(matched=tally.matched, retried=tally.changed, skipped=tally.skipped, items=_items(tally))
    )


async def discard_dead_letters(call: Call) -> Answer:
    body: DeadLetterSelection = call.body
    call.audit_selection()

    async def act(matches: Sequence[Match]) -> list[BulkItemResult]:
        return await discard(call.context, matches)

    if body.dry_run:
        return await _count(call, body)
    tally = await _over(call, body, act)
    return answer_json(
        DiscardedAnswer(matched=tally.matched, discarded=tally.changed, skipped=tally.skipped, items=_items(tally))
    )


async def _over(call: Call, body: DeadLetterSelection, act: Act) -> Tally:
    where = await _chosen(call, body)
    if where is None:
        return await bulk.over_ids(call.context, call.tenant, body.run_ids, act)
    return await bulk.over_filter(call.context, where, act)


async def _count(call: Call, body: DeadLetterSelection) -> Answer:
    where = await _chosen(call, body)
    if where is None:
        known = await bulk.over_ids(call.context, call.tenant, body.run_ids, _leave_alone)
        return answer_json(CountedAnswer(matched=known.changed))
    where = bulk.bounded(call.context, where)
    matched = await call.context.store.count_runs(where)
    return answer_json(CountedAnswer(matched=matched, created_before=render(ids.made_at(where.made_before or ""))))


async def _leave_alone(matches: Sequence[Match]) -> list[BulkItemResult]:
    return [BulkItemResult(match.run_id) for match in matches]


async def _chosen(call: Call, body: DeadLetterSelection) -> RunFilter | None:
    """Return the filter of the selected dead letters, or None if they are selected by their ids."""
    if sum((bool(body.run_ids), body.filter is not None, bool(body.fingerprint), bool(body.job_id), body.all)) != 1:
        raise Invalid(f"select dead letters in one way: {_CHOICES}")
    if body.run_ids:
        return None
    short = DeadLetterFilter(job_id=body.job_id, fingerprint=body.fingerprint, all=body.all)
    where = chosen_by(body.filter or short, call.tenant)
    if body.job_id:
        if not ids.is_id("j", body.job_id):
            raise NotFound("job", body.job_id[:100])
        await find_job(call.context, call.tenant, body.job_id)
    return structs.replace(where, dead_letters=True)


def _items(tally: Tally) -> list[DeadLetterResult] | UnsetType:
    if tally.matched > len(tally.results):
        return UNSET
    return [
        DeadLetterResult(
            run_id=result.run_id[:100],
            retried_as=result.successor or UNSET,
            error=UNSET if result.error is None else problem(result.error),
        )
        for result in tally.results
    ]


_WHICH: Final = (
    "Selected by ids, by a filter, or by their error. Any number is processed, in steps of"
    f" {bulk.STEP}, oldest first. `items` has the result of each if there are at most {bulk.MAX_LISTED_RESULTS:,}."
    " `dryRun` only counts. It can be repeated: nothing is done twice."
)

ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/dead-letters",
        permission=Permission.READ,
        summary="List dead letters, newest first",
        description="Runs that used up their retries and were not retried or discarded yet.",
        handle=list_dead_letters,
        query=DeadLettersQuery,
        answer=RunList,
    ),
    Route(
        method="GET",
        path="/v1/dead-letters/groups",
        permission=Permission.READ,
        summary="Dead letters by error, the most frequent first",
        description=(
            "Runs with the same `fingerprint` failed with the same error. Numbers, ids, times, paths and quoted values"
            " in their messages are ignored. The group `none` has the runs that gave up before Timeball kept"
            " fingerprints."
        ),
        handle=groups,
        query=DeadLetterGroupsQuery,
        answer=GroupList,
    ),
    Route(
        method="POST",
        path="/v1/dead-letters:retry",
        permission=Permission.RUN,
        summary="Retry dead letters",
        audit="dead-letter.retry",
        description=(
            f"{_WHICH} With `edit`, the new runs execute what the dead ones did, with these changes; their jobs do not"
            " change."
        ),
        handle=retry,
        body=RetryDeadLetters,
        answer=(RetriedAnswer, CountedAnswer),
        example={"fingerprint": "0a1b2c3d4e5f", "edit": {"parameters": {"region": "eu"}}},
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/dead-letters:discard",
        permission=Permission.RUN,
        summary="Discard dead letters",
        audit="dead-letter.discard",
        description=f"They stay in the history, and can still be retried by their ids. {_WHICH}",
        handle=discard_dead_letters,
        body=DeadLetterSelection,
        answer=(DiscardedAnswer, CountedAnswer),
        example={"filter": {"jobId": "j_0194f3a1c2b79f86d081884c7d65"}},
        problems=(404,),
    ),
)
