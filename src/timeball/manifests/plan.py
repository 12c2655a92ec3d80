"""Makes the plan: the steps after which a server has the jobs that the files declare, and their effect on the next
fires.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Final, Literal

from msgspec import structs

from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec, workflow_of
from timeball.domain.schedule.schedule import Window
from timeball.domain.text.schedule_text import describe
from timeball.manifests import diff, fire_changes, fires
from timeball.manifests.diff import Change, KnownJob
from timeball.manifests.errors import FilesRefused, ManifestProblem
from timeball.manifests.files import FileSet
from timeball.manifests.fire_changes import FireChanges
from timeball.manifests.job import Declared
from timeball.manifests.remote import RemoteServer

Action = Literal["create", "change", "cancel", "undeclared", "unchanged"]
"""`undeclared`: the job is not in the files any more, and stays on the server. With `prune` the action is `cancel`."""
_ESTIMATE: Final = "its slot in the window is chosen when it is applied; this is the one it would get now"
_AFTER: Final = "the times of these fires are not known in advance"
_MARGIN: Final = "maxRuns counts the fires since the job was created, so the last of these fires may not happen"


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """The change that `apply` makes for one job."""

    action: Action
    name: str
    declared: Declared | None = None
    known: KnownJob | None = None
    changes: tuple[Change, ...] = ()
    effect: FireChanges | None = None
    sentence: str = ""
    """The description of the schedule of a new job."""
    first: Micros | None = None
    """The first fire of a new job."""
    notes: tuple[str, ...] = ()
    predecessor: str | None = None
    """For a new job: the id of the job with the same name that was cancelled last."""

    @property
    def timezone(self) -> str:
        return timezone_of(self.declared.spec) if self.declared is not None else "UTC"


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    set_name: str | None
    now: Micros
    steps: tuple[ApplyStep, ...] = ()
    """All steps, including those of unchanged jobs."""

    def of(self, *actions: Action) -> list[ApplyStep]:
        return [step for step in self.steps if step.action in actions]

    @property
    def pending(self) -> list[ApplyStep]:
        return self.of("create", "change", "cancel")


@dataclass(slots=True)
class _Planner:
    wanted: FileSet
    server: RemoteServer
    now: Micros
    prune: bool
    take_over: bool
    complaints: list[ManifestProblem] = field(default_factory=list)
    found: dict[tuple[str, str], bool] = field(default_factory=dict)

    def plan(self) -> ManifestPlan:
        name = self.wanted.name
        members = [] if name is None else self.server.of_set(name)
        by_name: defaultdict[str, list[KnownJob]] = defaultdict(list)
        for each in members:
            if each.status != "cancelled":
                by_name[each.name].append(each)
        steps: list[ApplyStep] = []
        for job in self._in_order():
            try:
                steps.append(self._step(job, by_name[job.name]))
            except InvalidSchedule as error:
                self.complaints.append(job.complaint(error.detail))
        declared = {job.name for job in self.wanted.jobs}
        left = [each for each in members if each.live and each.name not in declared]
        steps += [ApplyStep("cancel" if self.prune else "undeclared", each.name, known=each) for each in left]
        if self.complaints:
            raise FilesRefused(self.complaints)
        return ManifestPlan(name, self.now, tuple(steps))

    def _in_order(self) -> list[Declared]:
        """Return the jobs of the files. A job that follows another comes after it: the other has to exist first."""
        jobs = {job.name: job for job in self.wanted.jobs}
        graph = {name: [of] for name, job in jobs.items() if (of := _followed_by(job.spec)) in jobs}
        try:
            first = [name for name in TopologicalSorter(graph).static_order() if name in graph]
        except CycleError as error:
            circle = list(reversed(error.args[1]))
            said = " follows ".join(circle)
            self.complaints.append(jobs[circle[0]].complaint(f"jobs cannot follow each other in a circle: {said}"))
            return list(self.wanted.jobs)
        return [*(job for job in self.wanted.jobs if job.name not in graph), *(jobs[name] for name in first)]

    def _pointed(self, job: Declared) -> Declared:
        """Return a job that follows another with the id of the other instead of its name; unchanged if the server does
        not have the other yet.
        """
        wanted = job.spec.follows
        found = [] if wanted is None else self.server.named(wanted.job)
        if wanted is None or len(found) != 1:
            return job
        spec = structs.replace(job.spec, schedule=structs.replace(wanted, job=found[0].job_id))
        return replace(job, spec=spec)

    def _step(self, job: Declared, members: Sequence[KnownJob]) -> ApplyStep:
        current = self._one(job, members) if members else self._stranger(job)
        if not self._check(job):
            return ApplyStep("unchanged", job.name)  # not shown, because the plan is refused with what is missing
        return self._creation(job) if current is None else self._comparison(self._pointed(job), current)

    def _stranger(self, job: Declared) -> KnownJob | None:
        """Return the job on the server that has this name but does not belong to the set; None: there is none."""
        found = self.server.named(job.name)
        live = [each for each in found if each.live]
        if not live and self.wanted.name is None:
            # Without a set, a completed job is recognised by its name alone: it must not be created again.
            live = [each for each in found if job.spec.one_shot or not each.spec.one_shot][:1]
        return self._one(job, live)

    def _one(self, job: Declared, found: Iterable[KnownJob]) -> KnownJob | None:
        candidates = list(found)
        live = [each for each in candidates if each.live] or candidates[:1]
        if len(live) > 1:
            ids = ", ".join(each.job_id for each in live[:5])
            self.complaints.append(
                job.complaint(
                    f"{len(live)} jobs have this name on the server ({ids}); cancel or rename all but one of them"
                )
            )
        return live[0] if live else None

    def _creation(self, job: Declared) -> ApplyStep:
        spec = job.spec
        if fires.are_known_here(spec):
            sentence, coming = describe(spec.schedule), fires.of(spec, self.now, 1)
        else:
            sentence, coming = self.server.preview(spec, self.now, 1)
        return ApplyStep(
            "create",
            job.name,
            declared=job,
            sentence=sentence,
            first=coming.first,
            notes=(*_of_slots(spec), *_of_following(spec)),
            predecessor=self.server.last_cancelled(job.name),
        )

    def _comparison(self, job: Declared, current: KnownJob) -> ApplyStep:
        changes = diff.changes(current.spec, job.spec)
        if job.paused is not None and current.live and job.paused != current.paused:
            changes.append(Change("paused", current.paused, job.paused))
        owner = next((each for each in current.sets if each != self.wanted.name), None)
        joins = self.wanted.name is not None and self.wanted.name not in current.sets
        if owner is not None and (changes or joins) and not self.take_over:
            self.complaints.append(
                job.complaint(f"it belongs to the set {owner!r}; change it there, or use --take-over to move it here")
            )
        if joins:
            changes.append(Change("set", owner, self.wanted.name))
        if not changes:
            return ApplyStep("unchanged", job.name, declared=job, known=current)
        found, notes = self._effect(job, current)
        return ApplyStep(
            "change", job.name, declared=job, known=current, changes=tuple(changes), effect=found, notes=notes
        )

    def _effect(self, job: Declared, current: KnownJob) -> tuple[FireChanges | None, tuple[str, ...]]:
        old, new = current.spec, job.spec
        if fires.stay(old, new):
            return None, ()
        coming = self.server.coming(current.job_id, fire_changes.MAX_COMPARED_FIRES)
        anchor = fires.anchor(old, new, coming)
        notes = [_MARGIN] if new.max_runs is not None else []
        if fires.keeps_slot(old, new) and old.calendars == new.calendars:
            ahead = fires.within(new, coming)
        elif fires.are_known_here(new):
            ahead = fires.of(new, self.now, fire_changes.MAX_COMPARED_FIRES, anchor)
        else:
            _, ahead = self.server.preview(new, self.now, fire_changes.MAX_COMPARED_FIRES, anchor)
            notes += _of_slots(new)
        notes += _of_following(new)
        if current.paused and job.paused is not False:
            notes.append("the job is paused: none of these fires happens until it is resumed")
        return fire_changes.compare(coming, ahead, self.now, timezone_of(new)), tuple(notes)

    def _check(self, job: Declared) -> bool:
        """Return True if everything that the job refers to exists: on the server, or, for a job to follow, also in the
        files. Otherwise add complaints."""
        spec = job.spec
        tasks = [spec.task_id, *(task.task_id for task in workflow_of(spec))]
        missing = [
            f"there is no registered task {each!r}; create it with `timeball tasks set`"
            for each in dict.fromkeys(tasks)
            if each is not None and not self._is_there("task", each)
        ]
        missing += [
            f"there is no calendar {each!r}; create it with `timeball calendars set`"
            for each in spec.calendars
            if not self._is_there("calendar", each)
        ]
        missing += self._whom_it_cannot_follow(spec)
        self.complaints += [job.complaint(each) for each in missing]
        return not missing

    def _whom_it_cannot_follow(self, spec: JobSpec) -> list[str]:
        wanted = spec.follows
        if wanted is None or wanted.job in {job.name for job in self.wanted.jobs}:
            return []
        found = len(self.server.named(wanted.job))
        if found > 1:
            return [f"{found} jobs have the name {wanted.job!r}; use the id of the one to follow"]
        if found or self.server.has_job(wanted.job):
            return []
        return [f"there is no job {wanted.job!r} to follow; declare it, or use the id of an existing job"]

    def _is_there(self, kind: Literal["task", "calendar"], name: str) -> bool:
        """Return True if the server has a task or a calendar. Each is requested once."""
        if (kind, name) not in self.found:
            look = self.server.has_task if kind == "task" else self.server.has_calendar
            self.found[kind, name] = look(name)
        return self.found[kind, name]


def make(
    wanted: FileSet, server: RemoteServer, now: Micros, *, prune: bool = False, take_over: bool = False
) -> ManifestPlan:
    """Return the plan. The server is only read. Raise `FilesRefused` with everything that cannot be planned."""
    return _Planner(wanted, server, now, prune, take_over).plan()


def _of_slots(spec: JobSpec) -> list[str]:
    return [_ESTIMATE] if isinstance(spec.schedule, Window) else []


def _of_following(spec: JobSpec) -> list[str]:
    return [_AFTER] if spec.follows is not None else []


def _followed_by(spec: JobSpec) -> str:
    """Return the name or the id of the job that a job follows; empty: it follows none."""
    return "" if spec.follows is None else spec.follows.job


def timezone_of(spec: JobSpec) -> str:
    return str(getattr(spec.schedule, "timezone", "UTC"))
