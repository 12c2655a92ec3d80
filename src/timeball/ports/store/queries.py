"""Reads of the store: lists, the ledger, output, the archive, large values, and the facts for `timeball why`."""

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
    """The runs to list or count. All conditions that are given must hold."""

    tenant: str
    job_id: str | None = None
    status: frozenset[Status] = frozenset()
    fire_from: Micros | None = None
    """Only fire times at or after this instant."""
    fire_until: Micros | None = None
    """Only fire times before this instant."""
    user_id: str | None = None
    tag: str | None = None
    task_id: str | None = None
    origin: frozenset[Origin] = frozenset()
    fingerprint: str | None = None
    """The fingerprint of the error that ended the run; `NO_FINGERPRINT`: only failed and dead runs that have none."""
    session: str | None = None
    """Only runs that the worker of this session executes now."""
    made_before: str | None = None
    """Only runs whose ids are before this one, that is, that were created earlier."""
    unattended: bool = False
    """True: leave out finished runs that a user has retried or discarded."""
    dead_letters: bool = False
    """True: only dead runs that were neither retried nor discarded."""


class Match(Struct, frozen=True):
    """A run that matches a filter, with the fields that a bulk operation needs."""

    run_id: str
    job_id: str
    fire_time: Micros
    status: Status


class RunSpec(Struct, frozen=True):
    """The spec that a run executes or executed."""

    spec: JobSpec
    edited: bool
    """True if a user edited the spec for this run; else it is the spec of a version of the job."""


class DeadLetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error."""

    fingerprint: str
    """`NO_FINGERPRINT` for dead letters that have none."""
    letters: int
    """Number of dead letters in the group."""
    jobs: int
    """Number of jobs that the dead letters belong to."""
    first_at: Micros
    """The instant at which the first run of the group ended."""
    last_at: Micros
    newest: str
    """The id of the newest run of the group; `failure` is its error."""
    failure: Failure | None


class DeadLetterGroups(Struct, frozen=True):
    groups: list[DeadLetterGroup]
    counted: int
    """Number of dead letters that were counted, in these groups and in smaller ones that are not listed."""
    more: bool
    """True if there are older dead letters that were not counted."""


class LedgerSums(Struct, frozen=True):
    """The numbers of due fires of a job in a range."""

    due: int
    counts: dict[Verdict, int]


class LogLine(Struct, frozen=True):
    """A stored chunk of output."""

    attempt: int
    seq: int
    stream: str
    at: Micros
    text: str


class ArchivedLine(Struct, frozen=True):
    """A chunk of output of a finished run, for the archive."""

    tenant: str
    run_id: str
    line: LogLine


class ReadStore(Protocol):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]:
        """Return runs, live and finished, by their ids, without those that do not exist."""
        ...

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int, *, may_lag: bool = False) -> Page[Run]:
        """Return a page of live and finished runs, newest fire time first, then by id. A run keeps its position when it
        ends, so that pages neither miss a run nor repeat one. A ledger row of several fires is included if its range
        overlaps the times of the filter.
        """
        ...

    async def count_runs(self, where: RunFilter) -> int:
        """Return the number of runs that match."""
        ...

    async def match_runs(self, where: RunFilter, after: Match | None, limit: int) -> list[Match]:
        """Return the next runs that match, after `after`, oldest fire time first, then by id."""
        ...

    async def specs(self, run_ids: Sequence[str]) -> dict[str, RunSpec]:
        """Return the specs that live and finished runs execute, by run id, without those that cannot be decoded. The
        spec of a run stays the same when its job changes.
        """
        ...

    async def dead_letter_groups(self, where: RunFilter, limit: int, *, may_lag: bool = False) -> DeadLetterGroups:
        """Return the largest groups of dead letters that match, largest first."""
        ...

    async def current_run(self, job_id: str) -> Run | None:
        """Return the run of a job that started last; if none has started, the next pending one; None: the job has no
        run. Runs of the tasks of a workflow are not considered.
        """
        ...

    async def attempts(self, run_id: str) -> list[Attempt]:
        """Return all attempts of a run except the last, which is part of the run itself."""
        ...

    async def first_attempts(self, run_ids: Sequence[str]) -> dict[str, Attempt]:
        """Return the first attempt of each run that has had more than one, by run id."""
        ...

    async def ledger(
        self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[Run]:
        """Return a page of the ledger rows of a job whose fires are in [since, until), oldest first. Only due fires are
        included, no future ones.
        """
        ...

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros, *, may_lag: bool = False) -> LedgerSums:
        """Return how many fires of a job in [since, until) fell due, and how many have which verdict. The fire of a
        live run counts as `open`.
        """
        ...

    async def logs(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        """Return the next output of a run, in order, of one attempt or of all. `after` is the position of the last
        chunk that the caller has, `attempt * 1_000_000 + seq`.
        """
        ...


class ArchiveStore(Protocol):
    """Reads for the archive: runs that ended at or after an instant, in the order of their ids. An answer has fewer
    runs if their results are large, so that its size is bounded.
    """

    async def finished_in(self, first: str, until: str, since: Micros, limit: int) -> list[Finished]:
        """Return the next runs that ended at or after `since`, with ids at or after `first` and before `until`. An
        empty list means that there are no more.
        """
        ...

    async def output_in(self, after: tuple[str, int, int], until: str, since: Micros, limit: int) -> list[ArchivedLine]:
        """Return the next chunks of output of runs that ended at or after `since`: after the run, attempt and `seq` in
        `after`, and of runs with ids before `until`. An empty list means that there are no more.
        """
        ...


class LargeStore(Protocol):
    """References from rows to large values in object storage (`domain.job.large_values`). A row may begin to refer to
    an object only within two days after the beginning of the day on which the object was written, because maintenance
    later deletes objects without a reference. After that, the call that submits, amends or triggers such a row raises
    `Unavailable`."""

    async def number(self, fresh: int) -> int:
        """Return the number of this store, which is part of the keys of its objects and tells them apart from the
        objects of other stores. The first call stores `fresh`; all later calls return that number, also after the store
        was transferred to another database.
        """
        ...

    async def referred_to(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Return those objects of a kind that a row refers to, or may begin to refer to."""
        ...

    async def replace_output(self, run_id: str, attempt: int, seqs: Sequence[int], key: str) -> bool:
        """Replace the output of an attempt by a reference to an object. `seqs` are the numbers of all its chunks.
        Return False, and change nothing, if the attempt is running, one of these chunks does not exist any more, or the
        object is too old to be referred to."""
        ...


class WhyStore(Protocol):
    """Reads the facts that explain the state of a run or a job. The work is bounded: at most `MAX_COUNTED` runs are
    counted.
    """

    async def circumstances(self, run_id: str) -> DiagnosisSnapshot | None:
        """Return the snapshot from which the state of a run is explained; None: there is no such run, or its job cannot
        be decoded."""
        ...

    async def standing(self, job_id: str) -> Standing | None:
        """Return the snapshot from which the state of a job is explained; None: there is no such job, or it cannot be
        decoded."""
        ...
