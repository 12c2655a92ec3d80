"""Exports the jobs of a server as the content of a manifest file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from timeball.manifests import diff, writer
from timeball.manifests.diff import KnownJob
from timeball.manifests.job import MAX_TAGS
from timeball.manifests.remote import RemoteServer


def export(server: RemoteServer, set_name: str | None, *, everything: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return the content of a file that declares the jobs of a set, or all jobs if `set_name` is None, ordered by name;
    and the reasons why some are left out. Completed jobs are included only with `everything`, cancelled ones never."""
    unseen: list[str] = []
    if set_name is not None:
        found = server.of_set(set_name)
    else:
        rows = list(server.all("scheduled,paused,completed"))
        unseen = [f"job {row['jobId']} is left out: {row['error']['detail']}" for row in rows if "error" in row]
        found = [diff.known(row) for row in rows if "error" not in row]
    wanted = [job for job in found if job.live or (everything and job.status == "completed")]
    names = Counter(job.name for job in wanted)
    left_out = unseen + [f"job {job.job_id} is left out: it has no name" for job in wanted if not job.name]
    left_out += [
        f"{count} jobs with the name {name!r} are left out: in a file, names are unique"
        for name, count in names.items()
        if count > 1 and name
    ]
    left_out += [
        f"job {job.name!r} is left out: it has more than {MAX_TAGS} tags, the maximum of a declared job"
        for job in wanted
        if len(job.spec.tags) > MAX_TAGS
    ]
    kept = [job for job in wanted if job.name and names[job.name] == 1 and len(job.spec.tags) <= MAX_TAGS]
    by_id = {job.job_id: job.name for job in kept}
    jobs = [writer.declaration(_by_name(job, by_id)) for job in sorted(kept, key=lambda job: job.name)]
    return writer.contents(jobs, set_name), left_out


def _by_name(job: KnownJob, names: Mapping[str, str]) -> KnownJob:
    """Return the job with the name of the job that it follows instead of its id, if that job is in the file, too."""
    wanted = job.spec.follows
    if wanted is None or wanted.job not in names:
        return job
    return replace(job, spec=structs.replace(job.spec, schedule=structs.replace(wanted, job=names[wanted.job])))
