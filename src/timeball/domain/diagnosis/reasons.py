"""One reason why something waits, did not run, or was late."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from timeball.domain.instant import Micros


class Code(StrEnum):
    """What programs tell reasons apart by."""

    # Of jobs.
    PAUSED = "paused"
    NOT_BEGUN = "not_begun"
    """Its `startAt` has not come."""
    ENDED = "ended"
    """Its `endAt` leaves no fire."""
    EXHAUSTED = "exhausted"
    """It fired `maxRuns` times."""
    COMPLETED = "completed"
    EXCLUDED = "excluded"
    """A calendar is closed when it would fire."""
    FOLLOWS = "follows"
    """It fires after runs of another job; of a run, it came after one."""
    PLANNING = "planning"
    """Its time has come, and its run is about to be written."""
    UNPLANNABLE = "unplannable"
    """Its next fire cannot be computed or written now."""
    CLOCK = "clock"
    """Planning is held: the wall clock stepped ahead."""

    # Of runs that wait.
    NOT_DUE = "not_due"
    PARAMETERS = "parameters"
    """They are large, and could not be read from where they are kept."""
    JITTER = "jitter"
    RETRY = "retry"
    OVERLAP = "overlap"
    TURN = "turn"
    TURN_BLOCKED = "turn_blocked"
    """The run whose turn it is gave up: a person has to deal with it."""
    CONCURRENCY = "concurrency"
    RATE_LIMIT = "rate_limit"
    CIRCUIT_OPEN = "circuit_open"
    CIRCUIT_PROBED = "circuit_probed"
    NO_WORKER = "no_worker"
    NO_FITTING_WORKER = "no_fitting_worker"
    NO_FUNCTION = "no_function"
    RESERVED = "reserved"
    """A worker is kept free for it."""
    AHEAD = "ahead"
    """Others go first."""
    BUSY = "busy"
    CLAIMABLE = "claimable"
    """A worker has room for it."""
    START_DEADLINE = "start_deadline"
    ROOM_MADE = "room_made"
    """Another run makes room for it."""

    # Of runs that a worker has.
    CLAIMED = "claimed"
    RUNNING = "running"
    TASKS = "tasks"
    """A workflow run waits for its tasks."""
    CANCELLING = "cancelling"
    PREEMPTED = "preempted"
    """It makes room for another."""
    SILENT = "silent"
    """Its worker does not answer."""

    # Of runs that ended.
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
    """For people: one sentence, which needs nothing around it."""
    unblocks: str = ""
    """What would change it; nothing where nothing has to."""
    since: Micros | None = None
    until: Micros | None = None
    """When time alone changes it."""
    run_id: str | None = None
    """The other run, where there is one."""
