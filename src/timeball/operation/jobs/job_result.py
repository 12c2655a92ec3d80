"""The result of a bulk action for one job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from timeball.domain.errors import TimeballError, Unavailable


class JobResult(Struct, frozen=True):
    job_id: str
    error: TimeballError | None = None
    """The reason why nothing was done."""


async def one_by_one(job_ids: Sequence[str], act: Callable[[str], Awaitable[object]]) -> list[JobResult]:
    """Apply the action to one job after the other. An error of the action becomes the result of its job, and the other
    jobs follow. Only `Unavailable` ends the call: it is raised."""
    results: list[JobResult] = []
    for job_id in job_ids:
        try:
            await act(job_id)
        except Unavailable:
            raise
        except TimeballError as error:
            results.append(JobResult(job_id, error))
        else:
            results.append(JobResult(job_id))
    return results
