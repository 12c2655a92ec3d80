"""The reason why a run or a job waits, did not run, or was late."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from timeball.domain.instant import Micros


class Code(StrEnum):
    """The code that identifies a reason for programs."""

    # Reasons of jobs.
    PAUSED = "paused"
    NOT_BEGUN = "not_begun"
    """The `startAt` of the job is in the future."""
    ENDED = "ended"
    """No fire is left before the `endAt` of the job."""
    EXHAUSTED = "exhausted"
    """The job fired `maxRuns` times."""
    COMPLETED = "completed"
    EXCLUDED = "excluded"
    """A calendar excludes the last or the next fire of the job."""
    FOLLOWS = "follows"
    """The job fires after runs of another job. For a run: the end of another job's run caused it."""
    PLANNING = "planning"
    """A fire is due, and its run is about to be created."""
    UNPLANNABLE = "unplannable"
    """The next fire of the job cannot be computed or stored now."""
    CLOCK = "clock"
    """Planning is on hold, because the wall clock stepped ahead."""

    # Reasons of waiting runs.
    NOT_DUE = "not_due"
    PARAMETERS = "parameters"
    """The parameters are large, and could not be read from the object storage."""
    JITTER = "jitter"
    RETRY = "retry"
    OVERLAP = "overlap"
    TURN = "turn"
    TURN_BLOCKED = "turn_blocked"
    """The run that holds the ordering key ended as failed or dead. A user has to retry or discard it."""
    CONCURRENCY = "concurrency"
    RATE_LIMIT = "rate_limit"
    CIRCUIT_OPEN = "circuit_open"
    CIRCUIT_PROBED = "circuit_probed"
    TENANT_QUOTA = "tenant_quota"
    """As many runs of the tenant execute as may do so at the same time."""
    DAILY_QUOTA = "daily_quota"
    """The tenant may begin no more runs on the day of the fire, so the run waits for another day."""
    NO_WORKER = "no_worker"
    NO_FITTING_WORKER = "no_fitting_worker"
    NO_FUNCTION = "no_function"
    RESERVED = "reserved"
    """A worker is reserved for the placement profile of the run."""
    AHEAD = "ahead"
    """Other claimable runs have a better rank, so they are claimed first."""
    BUSY = "busy"
    CLAIMABLE = "claimable"
    """A worker has room for the run."""
    START_DEADLINE = "start_deadline"
    ROOM_MADE = "room_made"
    """Another run is preempted for this run."""

    # Reasons of runs that a worker has claimed.
    CLAIMED = "claimed"
    RUNNING = "running"
    TASKS = "tasks"
    """A workflow run waits for its tasks."""
    CANCELLING = "cancelling"
    PREEMPTED = "preempted"
    """The run is preempted for another run."""
    SILENT = "silent"
    """The worker does not answer."""

    # Reasons of runs that have ended.
    SUCCEEDED = "succeeded"
    LATE = "late"
    CAUGHT_UP = "caught_up"
    FAILED = "failed"
    AT_MOST_ONCE = "at_most_once"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    MISSED = "missed"
    ARCHIVED = "archived"


class Reason(Struct, frozen=True, kw_only=True):
    code: Code
    text: str
    """One sentence for people, complete without context."""
    unblocks: str = ""
    """What would remove the reason; empty if nothing has to be done."""
    since: Micros | None = None
    until: Micros | None = None
    """The instant at which the reason ends by itself."""
    run_id: str | None = None
    """The id of the other run that causes the reason, if there is one."""
