"""The store for who looks: lists, the ledger, output, the archive, and why something is as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from timeball.domain.diagnosis.snapshot import DiagnosisSnapshot, Standing
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.run.archive_record import Finished
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failure
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.ports.store.paging import Page


class RunFilter(Struct, frozen=True, kw_only=True):
    tenant: str
    job_id: str | None = None
    status: frozenset[Status] = frozenset()
    fire_from: Micros | None = None
    fire_until: Micros | None = None
    user_id: str | None = None
    tag: str | None = None
    task_id: str | None = None
    origin: frozenset[Origin] = frozenset()
    fingerprint: str | None = None
    """Of the error with which it gave up."""
    made_before: str | None = None
    """Only ids before this one."""
    unattended: bool = False
    """Of those that ended, only what nobody retried or discarded."""
    dead_letters: bool = False
    """Only dead runs nobody has retried or discarded."""


class Match(Struct, frozen=True):
    """A run that a filter means."""

    run_id: str
    job_id: str
    fire_time: Micros
    status: Status


class RunSpec(Struct, frozen=True):
    """What a run executes, or executed."""

    spec: JobSpec
    edited: bool
    """Somebody edited it for this run; else it is the one its job had."""


class LetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error."""

    fingerprint: str | None
    letters: int
    jobs: int
    first_at: Micros
    """When the first of them died."""
    last_at: Micros
    newest: str
    """The run with the newest id among them, and its failure."""
    failure: Failure | None


class LetterGroups(Struct, frozen=True):
    groups: list[LetterGroup]
    counted: int
    """The letters that were looked at, in these groups and others."""
    more: bool
    """There are older ones that were not."""


class LedgerSums(Struct, frozen=True):
    due: int
    counts: dict[Verdict, int]


class LogLine(Struct, frozen=True):
    attempt: int
    seq: int
    stream: str
    at: Micros
    text: str


class ReadStore(Protocol):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]: ...

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int, *, may_lag: bool = False) -> Page[Run]:
        """Newest fire time first, ties by id, live and finished alike. A run that ends keeps its place in that
        order, so that pages miss none and tell none twice. A span is meant if it reaches into the filter's times."""
        ...

    async def count_runs(self, where: RunFilter) -> int: ...

    async def match_runs(self, where: RunFilter, after: Match | None, limit: int) -> list[Match]:
        """The first that match of those after this one, oldest fire time first, ties by id."""
        ...

    async def specs(self, run_ids: Sequence[str]) -> dict[str, RunSpec]:
        """What runs execute, live and finished alike; without those whose spec cannot be read. What a run has stays
        what it is, whatever becomes of its job."""
        ...

    async def letter_groups(self, where: RunFilter, limit: int, *, may_lag: bool = False) -> LetterGroups:
        """The largest groups of dead letters, largest first."""
        ...

    async def current_run(self, job_id: str) -> Run | None:
        """The run that started last, else the pending one that is next, else None. Of a workflow, not those of its
        tasks."""
        ...

    async def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts before the last."""
        ...

    async def first_attempts(self, run_ids: Sequence[str]) -> dict[str, Attempt]:
        """The first attempt of each of these runs that has had another."""
        ...

    async def ledger(
        self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[Run]:
        """Rows whose instants fall into [since, until), oldest first; only due instants. Future instants are not
        part of it."""
        ...

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros, *, may_lag: bool = False) -> LedgerSums:
        """How many instants fell due and what became of them; a live run counts as `open`."""
        ...

    async def logs(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        """Output in order; of one attempt, or of all; `after` is the last (attempt * 1_000_000 + seq) seen."""
        ...


class ArchiveStore(Protocol):
    """What goes to the archive: runs that ended at or after an instant, in the order of their ids. Of runs with large
    results fewer come at once, so that no answer is large."""

    async def finished_in(self, first: str, until: str, since: Micros, limit: int) -> list[Finished]:
        """The next of them whose ids are at or after `first` and before `until`. Nothing: there are no more."""
        ...

    async def output_in(
        self, after: tuple[str, int, int], until: str, since: Micros, limit: int
    ) -> list[tuple[str, LogLine]]:
        """The next pieces of their output, each with its run's id: after this run, attempt and number, and of runs
        before `until`."""
        ...


class LargeStore(Protocol):
    """What rows say about objects that are kept elsewhere, see `domain.job.large_values`. A row that would begin to
    refer to one too late is not written: whoever submits, amends or triggers that raises `Unavailable`."""

    async def number(self, fresh: int) -> int:
        """The number of this store, by which its objects are told from those of others: the one it was given first,
        wherever it moves."""
        ...

    async def referred_to(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Those of these objects that a row refers to, or may begin to refer to."""
        ...

    async def replace_output(self, run_id: str, attempt: int, seqs: Sequence[int], key: str) -> bool:
        """Replace all output of an attempt that has ended, which are these pieces, by one that refers to an object.
        False: it is something else by now, and stays."""
        ...


class WhyStore(Protocol):
    """What is the matter? Looks at much, but never at more than so much: it counts up to `MAX_COUNTED`."""

    async def circumstances(self, run_id: str) -> DiagnosisSnapshot | None:
        """All that explains where a run is; None: no such run."""
        ...

    async def standing(self, job_id: str) -> Standing | None:
        """All that explains where a job is; None: no such job."""
        ...
