"""The worker protocol: five messages between a worker and a server, the same in process and over HTTP.

- Workers and servers decide by the ages and delays in the messages, never by a timestamp, so the clocks of the
  machines do not matter. The worker only passes the fire time of an assignment on to the job.
- A worker has at most one pending poll. The assignments in the answer to a poll count as delivered when the worker
  sends its next poll.
- A worker must not act on the answer to a poll that it gave up. The `held` list of its next poll does not contain these
  assignments, so the server releases them.
- Every text and every list in these messages has a bound, which the server checks when it decodes a message. A worker
  keeps within the bounds: it cuts a text and marks the cut, and sends several messages if one cannot hold everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Protocol

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from timeball.domain.dispatch.placement import Label
from timeball.domain.dispatch.slot_pools import MAX_POOLS, PoolName, SlotPool
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, Micros
from timeball.domain.network.address_lists import AddressLists
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.run.trace import MAX_TRACEPARENT_LENGTH
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.attempt import AttemptIdentity

MAX_WORKER_NAME_LENGTH: Final = 200
MAX_LABELS: Final = 200
MAX_FUNCTIONS: Final = 10_000
MAX_KINDS: Final = 50
MAX_MESSAGE_BYTES: Final = 4 << 20
"""Maximum size of a message as JSON, in bytes. Decoding one blocks the event loop of the server."""
MAX_HELD: Final = 120_000
"""Maximum number of attempts that a worker holds: one for each of its slots, and those whose end it has not reported
yet.
"""
MAX_OUTCOMES_PER_REPORT: Final = 2_000
MAX_NOTES_PER_REPORT: Final = 2_000
"""Maximum number of starts in one report, of progress updates, and of answers to preemption orders."""
MAX_CHUNKS_PER_REPORT: Final = 5_000
MAX_CHUNK_LENGTH: Final = 65_536
"""Maximum number of characters of one chunk of output."""
MAX_CHUNKS_PER_ATTEMPT: Final = 1_000_000
"""The position of a chunk in the output of a run is `attempt * 1_000_000 + seq`, so `seq` stays below this number."""
MAX_NOTE_LENGTH: Final = 1_000
MAX_RESULT_SIZE: Final = 1 << 20
"""Maximum size of a result, in bytes of JSON."""
MAX_MESSAGE_LENGTH: Final = 10_000
MAX_KIND_LENGTH: Final = 100
MAX_EXCEPTIONS: Final = 100
MAX_EXCEPTION_LENGTH: Final = 500
MAX_AGE: Final = 3_660 * DAY
"""Maximum age of an attempt: ten years, in microseconds."""

Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer that every store can keep. It is checked when a report is decoded, and not again after that."""
Sequential = Annotated[int, Meta(ge=0, le=1 << 53)]
"""An integer that grows from message to message. The bound leaves room for the following numbers."""
Age = Annotated[int, Meta(ge=0, le=MAX_AGE)]
SessionId = Annotated[str, Meta(max_length=64)]
Room = Annotated[dict[PoolName, Annotated[int, Meta(ge=0, le=100_000)]], Meta(max_length=MAX_POOLS)]


LOCAL_KEY: Final = "local"
"""The key of a worker that runs in the process of a server. No request can have it: the ids of API keys begin with
`k_`.
"""


class RegisterWorker(Struct, frozen=True, rename="camel", kw_only=True):
    """The first message of a worker: its name, its capacity and what it can execute."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_WORKER_NAME_LENGTH)]
    slots: int
    labels: Annotated[list[Label], Meta(max_length=MAX_LABELS)] = []
    tasks: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MAX_FUNCTIONS)] = []
    """Names of the Python functions that the worker can execute."""
    version: Annotated[str, Meta(max_length=100)] = ""
    cpu: float | None = None
    """Number of CPUs for runs that request CPUs; None: unlimited."""
    memory_mb: int | None = None
    dedicated: bool = False
    """True if the worker accepts only runs that request one of its labels."""
    kinds: Annotated[list[Annotated[str, Meta(max_length=50)]], Meta(max_length=MAX_KINDS)] | None = None
    """The task kinds that the worker accepts; None, as from older workers: all kinds."""
    pools: Annotated[list[SlotPool], Meta(max_length=MAX_POOLS)] = []
    """The pools of slots that bound some of its runs; none, as from older workers: only `slots` bounds its runs."""
    after: SessionId | None = None
    """The session that this process lost, if it had one. An order to drain that was given to it still holds."""


class WorkerRegistered(Struct, frozen=True, rename="camel", kw_only=True):
    """The answer to `RegisterWorker`."""

    session: str
    """The session under which the worker holds attempts. It ends when its lease lapses; the worker then holds none of
    its attempts any more.
    """
    lease: Micros
    """Microseconds for which the lease lasts. The worker counts from the moment at which it sent its registration or a
    beat; the store counts from its own write, which is later."""
    beat_every: Micros
    """Microseconds between two beats."""


class Assignment(AttemptIdentity, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One attempt of one run, for the worker that polled."""

    delay: Micros
    """Start the attempt this many microseconds after the answer arrived, never earlier."""
    fire_time: Micros
    """The fire time of the run. The worker passes it on to the job, and decides nothing by it."""
    serial: bool
    """True if the store has to lock the job when it settles the attempt. The worker returns the value in its report."""
    turn: tuple[str, str] | None = None
    """Tenant and ordering key. The worker returns them in its report: they tell the store which ordering key to lock.
    """
    spec: Raw
    """The spec of the job in its canonical JSON (`JobSpec`), in the version of the fire."""
    task: Raw | UnsetType = UNSET
    """The JSON of the registered task, if the spec names a `taskId`."""
    tenant: str = DEFAULT_TENANT
    """The tenant of the job. The worker keeps the processes of different tenants apart. Older servers do not name it,
    and newer ones name it only if it is not the default one.
    """
    traceparent: str | None = None
    """The trace that the attempt continues. None: the run is in no trace, and the worker passes one of the run to the
    job."""


class Poll(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Reports the attempts and the free slots of a worker, and asks for assignments and orders. The server answers when
    there are some, or when `wait` has passed.
    """

    session: SessionId
    seq: Sequential
    """The number of the poll. It grows with every poll of the session."""
    free: int
    """Number of free slots. A poll with 0 waits for orders only."""
    held: Annotated[list[int], Meta(max_length=MAX_HELD)]
    """Tokens of all attempts that the worker holds, including those whose reported end the server has not acknowledged.
    If the server does not know whether an answer arrived, it releases the attempts of earlier polls that this list does
    not name; that costs their runs no attempt.
    """
    wait: Micros
    """Maximum number of microseconds until the server answers."""
    room: Room = {}
    """Number of free slots of each pool. Older servers ignore it: they may assign more runs of a pool."""


class PollResponse(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The answer to a poll or a beat."""

    assignments: list[Assignment] = []
    cancel: list[int] = []
    """Tokens of held attempts to stop, because a user cancelled their runs. Report them as `cancelled`. The server
    repeats the order until the end is reported.
    """
    pause: list[tuple[int, int]] = []
    """Preemption orders: the token of a held attempt, and the number of the order, which grows with each order for that
    attempt. The worker suspends the processes of the attempt and frees its slots, or releases the attempt. The server
    repeats the order until the worker reports about this number.
    """
    kill: list[int] = []
    """Tokens of held attempts to stop like `cancel`, but at once, without the grace in which jobs may stop by
    themselves.
    """
    lost: list[int] = []
    """Tokens of attempts that the session does not hold any more. Stop them at once and report nothing."""
    drain: bool = False
    """Accept nothing new, finish the attempts that are held, then end the session and leave. Beats repeat the order.
    Older workers do not know it: they get nothing new, and stay.
    """
    addresses: dict[str, AddressLists] = {}
    """The address lists of those tenants of the assignments that have any. Older servers do not name them, and older
    workers ignore them."""


class Beat(Struct, frozen=True, rename="camel", kw_only=True):
    """Renews the lease of a session. The worker counts `WorkerRegistered.lease` from the moment at which it sent the
    beat, not from the answer."""

    session: SessionId
    held: Annotated[list[int], Meta(max_length=MAX_HELD)]
    """Tokens of all attempts that the worker holds."""


class Started(Struct, frozen=True, rename="camel", kw_only=True):
    """Reports the start of an attempt that has been executing for a short time. An attempt that ends sooner reports
    only its outcome.
    """

    run_id: str
    token: Whole
    age: Age
    """Microseconds since the start."""


class Progress(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    token: Whole
    fraction: Annotated[float, Meta(ge=0, le=1)]
    note: Annotated[str, Meta(max_length=MAX_NOTE_LENGTH)] = ""


class Pausing(Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of a worker to a preemption order."""

    run_id: str
    token: Whole
    number: Whole
    """The number of the order."""
    what: Literal["paused", "resumed", "refused"]
    """`paused`: the attempt is suspended. `resumed`: it executes again. `refused`: it cannot be suspended, and no
    further order is to be sent for it.
    """
    age: Age
    """Microseconds since it was suspended, resumed or refused."""


class LogChunk(Struct, frozen=True, rename="camel", kw_only=True):
    """A part of the output of an attempt."""

    run_id: str
    attempt: Whole
    token: Whole
    seq: Annotated[int, Meta(ge=0, lt=MAX_CHUNKS_PER_ATTEMPT)]
    """The position within the output of the attempt, from 0. The store keeps a chunk that was sent twice only once."""
    stream: Annotated[str, Meta(pattern=r"^(?:stdout|stderr|system)$(?!\n)")]
    text: Annotated[str, Meta(max_length=MAX_CHUNK_LENGTH)]


class Ended(AttemptIdentity, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The end of an attempt."""

    attempt: Whole
    token: Whole
    serial: bool
    outcome: Outcome
    turn: tuple[Annotated[str, Meta(max_length=255)], Annotated[str, Meta(max_length=255)]] | None = None
    age: Age | None = None
    """Microseconds since the attempt started; None: it never started."""
    took: Age = 0
    """Microseconds that the attempt executed."""
    host: Annotated[str, Meta(max_length=300)] | None = None
    """The host and port that an `http` attempt called. The whole fleet shares the circuit breaker of a host."""
    placed: bool = False
    """True if the job has a `resultLocation`. Only a hint: the server reads the location from the spec of the run."""
    traceparent: Annotated[str, Meta(max_length=MAX_TRACEPARENT_LENGTH)] | None = None
    """The position in the trace at which the attempt ended; None if its assignment named no trace."""


class Report(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The events of several attempts in one message. If the answer was lost, the worker sends the report again; only
    its ages have grown.
    """

    session: SessionId
    poll_seq: Whole
    """The number of the poll that was pending when the report was sent. `free` changes that poll only."""
    free: Whole
    """Number of free slots, which replaces the number in that poll."""
    started: Annotated[list[Started], Meta(max_length=MAX_NOTES_PER_REPORT)] = []
    progress: Annotated[list[Progress], Meta(max_length=MAX_NOTES_PER_REPORT)] = []
    logs: Annotated[list[LogChunk], Meta(max_length=MAX_CHUNKS_PER_REPORT)] = []
    ended: Annotated[list[Ended], Meta(max_length=MAX_OUTCOMES_PER_REPORT)] = []
    pausing: Annotated[list[Pausing], Meta(max_length=MAX_NOTES_PER_REPORT)] = []
    room: Room = {}
    """Number of free slots of each pool, which replace the numbers in that poll."""


class ReportAck(Struct, frozen=True, rename="camel", kw_only=True):
    """The answer to a report: the server has stored it, except for the stale attempts."""

    stale: list[int] = []
    """Tokens of attempts that the session does not hold any more. The server stored nothing about them. Stop them at
    once.
    """


class ServerFault(Unavailable):
    """Raised if the server answered with an internal error (500). The content of the message may be the cause, so the
    same message may fail every time. The worker tries another server, as it does if a server cannot be reached.
    """


class SessionLost(Exception):
    """Raised if the lease of the session has lapsed, or the store does not have the session. The worker kills all
    attempts that it held and registers again.
    """


class WorkerProtocol(Protocol):
    """The server as a worker sees it. Each call except `hello` raises `SessionLost` if the session has ended. Each call
    raises `Unavailable` if the server cannot be reached or cannot answer; the call may then have taken effect, and may
    be repeated unchanged.
    """

    async def hello(self, hello: RegisterWorker) -> WorkerRegistered:
        """Register a worker: open a session for it, with a lease that starts now. Each call opens a new session."""
        ...

    async def poll(self, poll: Poll) -> PollResponse:
        """Release the attempts of earlier polls that the worker does not hold, if an answer may have been lost. Then
        wait for assignments and orders and return them. The answer is empty if none came within the time of the poll,
        or if a newer poll replaced this one."""
        ...

    async def beat(self, beat: Beat) -> PollResponse:
        """Renew the lease. Return orders at once, never assignments."""
        ...

    async def report(self, report: Report) -> ReportAck:
        """Store starts, progress, output, preemption answers and ends of attempts. They are durable when this returns.
        A report that is sent twice changes nothing the second time; ends that the store has already are answered as
        stale.
        """
        ...

    async def goodbye(self, session: str) -> None:
        """End the session, because the worker leaves. Attempts that it still holds have not started; they are released
        at once.
        """
        ...


class KeyedWorkerProtocol(Protocol):
    """`WorkerProtocol` for callers that also pass the API key of the worker. A session belongs to the key of its
    `hello`, and to the tenants that workers with this key serve (None: all). A message with another key is answered as
    if the session did not exist, and changes nothing.
    """

    async def hello(
        self, hello: RegisterWorker, key: str, tenants: Sequence[str] | None = None
    ) -> WorkerRegistered: ...

    async def poll(self, poll: Poll, key: str) -> PollResponse: ...

    async def beat(self, beat: Beat, key: str) -> PollResponse: ...

    async def report(self, report: Report, key: str) -> ReportAck: ...

    async def goodbye(self, session: str, key: str) -> None: ...
