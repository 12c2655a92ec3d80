"""The route that compares the starts of runs with the lateness objectives of their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from timeball.api.query import SloQuery
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import ids
from timeball.domain.errors import Invalid, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.job.slo import WINDOWS, Slo, Starts
from timeball.operation.overview.slo import slo_of_job, slo_of_tag


class SloWindowView(Struct, frozen=True, rename="camel", kw_only=True):
    window: str
    """The length of time before now."""
    starts: int
    """Number of runs that had to start, with missed fires."""
    late: int
    burn_rate: float | None
    """How many times faster than allowed the error budget is used; null if no run had to start."""
    budget_left: float | None
    """The share of the error budget of the window that is left; negative if the objective is not met."""


class JobSloView(Struct, frozen=True, rename="camel", kw_only=True):
    job_id: str
    job_name: str
    slo: Slo
    windows: list[SloWindowView]


class SloAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    at: str
    items: list[JobSloView]
    """The jobs with an objective."""
    total: list[SloWindowView]
    """All of them together: their starts, and the sum of their budgets."""
    capped: bool
    """True if a window has more runs than were counted: then the newest ones stand for all."""


async def read(call: Call) -> Answer:
    query: SloQuery = call.query
    if bool(query.job_id) is bool(query.tag):
        raise Invalid("give either jobId or tag")
    if query.job_id and not ids.is_id("j", query.job_id):
        raise NotFound("job", query.job_id)
    of_job = bool(query.job_id)
    found = await (slo_of_job if of_job else slo_of_tag)(call.context, call.tenant, query.job_id or query.tag)
    return answer_json(
        SloAnswer(
            at=render(found.now),
            items=[
                JobSloView(
                    job_id=each.job.id, job_name=each.job.spec.name, slo=each.slo, windows=_windows(each.windows)
                )
                for each in found.items
            ],
            total=_windows(found.total),
            capped=found.capped,
        )
    )


def _windows(found: Sequence[Starts]) -> list[SloWindowView]:
    return [
        SloWindowView(
            window=name,
            starts=each.count,
            late=each.late,
            burn_rate=None if each.burn_rate is None else round(each.burn_rate, 3),
            budget_left=None if each.budget_left is None else round(each.budget_left, 4),
        )
        for (name, _), each in zip(WINDOWS, found, strict=True)
    ]


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/slo",
        permission=Permission.READ,
        summary="Compare starts with the lateness objectives",
        description=(
            "For a job, or for all jobs with a tag that have an objective (`slo`): how many runs had to start in the"
            " last hour to 30 days, how many were late, how fast the error budget is used, and how much is left."
        ),
        handle=read,
        query=SloQuery,
        answer=SloAnswer,
        problems=(404,),
    ),
)
