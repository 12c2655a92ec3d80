"""Requests about dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from timeball.client.models.dead_letters import DeadGroups, Discarding, Retrial
from timeball.client.models.runs import Runs
from timeball.client.requests.request import ApiRequest, Edit, get, post
from timeball.client.run_selection import DeadLetterChoice, DeadLetterWhere, narrowed

T = TypeVar("T")


def dead_letters(where: DeadLetterWhere, *, limit: int | None = None, cursor: str | None = None) -> ApiRequest[Runs]:
    return get("/v1/dead-letters", Runs, **narrowed(where), limit=limit, cursor=cursor)


def dead_groups(where: DeadLetterWhere, *, limit: int | None = None) -> ApiRequest[DeadGroups]:
    return get("/v1/dead-letters/groups", DeadGroups, **narrowed(where), limit=limit)


def retry_dead(
    run_ids: Sequence[str], where: DeadLetterChoice, *, edit: Edit | None = None, dry_run: bool = False
) -> ApiRequest[Retrial]:
    return _about_letters("retry", Retrial, run_ids, where, edit, dry_run=dry_run)


def discard_dead(run_ids: Sequence[str], where: DeadLetterChoice, *, dry_run: bool = False) -> ApiRequest[Discarding]:
    return _about_letters("discard", Discarding, run_ids, where, None, dry_run=dry_run)


def _about_letters(
    verb: str, answer: type[T], run_ids: Sequence[str], where: DeadLetterChoice, edit: Edit | None, *, dry_run: bool
) -> ApiRequest[T]:
    """Return a request to retry or discard dead letters, which are selected by their ids or by a filter. The server
    refuses a request with both or with neither, so that no run is selected by accident."""
    chosen = narrowed(where)
    body = {"runIds": list(run_ids), "filter": chosen, "edit": edit, "dryRun": dry_run}
    fields = {name: value for name, value in body.items() if value}
    repeatable = dry_run or bool(run_ids) or "createdBefore" in chosen
    return post(f"/v1/dead-letters:{verb}", answer, fields, repeatable=repeatable)
