"""How a worker and a server talk: five messages, the same in process and over HTTP.

Only ages and delays cross this port, never timestamps, so the clocks of the machines do not matter. A worker has at
most one poll under way; whatever a poll's answer assigns counts as delivered once the next poll is sent. An
abandoned poll's answer must never be acted on: the next poll's `held` list tells the server to take it back.

Every text and every list in these messages has a bound, which a server checks as it decodes them. A worker keeps to the
bounds: it cuts texts, with a mark, and says in several messages what does not fit into one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Protocol

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from timeball.domain.dispatch.placement import Label
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, Micros
from timeball.domain.run.lifecycle import Outcome
from timeball.ports.attempt import AttemptIdentity

MAX_WORKER_NAME_LENGTH: Final = 200
MAX_LABELS: Final = 200
MAX_FUNCTIONS: Final = 10_000
MAX_KINDS: Final = 50
MAX_MESSAGE_BYTES: Final = 4 << 20
"""Of a message as JSON. A server holds the event loop while it decodes one."""
MAX_HELD: Final = 120_000
"""Attempts in a worker's hands: as many as it may have slots, and those whose end it has yet to report."""
MAX_OUTCOMES_PER_REPORT: Final = 2_000
MAX_NOTES_PER_REPORT: Final = 2_000
"""Starts, steps of progress, and answers to orders to make room, each."""
MAX_CHUNKS_PER_REPORT: Final = 5_000
MAX_CHUNK_LENGTH: Final = 65_536
"""Characters."""
MAX_CHUNKS_PER_ATTEMPT: Final = 1_000_000
"""A position in the output of a run is made of its attempt and its number there."""
MAX_NOTE_LENGTH: Final = 1_000
MAX_RESULT_SIZE: Final = 1 << 20
"""Bytes of JSON."""
MAX_MESSAGE_LENGTH: Final = 10_000
MAX_KIND_LENGTH: Final = 100
MAX_EXCEPTIONS: Final = 100
MAX_EXCEPTION_LENGTH: Final = 500
MAX_AGE: Final = 3_660 * DAY
"""Of an attempt: ten years."""

Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number that every store can keep. What a worker reports is checked as it is decoded: nobody looks at it again."""
Sequential = Annotated[int, Meta(ge=0, le=1 << 53)]
"""A number that grows: the next ones fit, too."""
Age = Annotated[int, Meta(ge=0, le=MAX_AGE)]
SessionId = Annotated[str, Meta(max_length=64)]


LOCAL_KEY: Final = "local"
"""Stands for the key of a worker inside a server's process. No request has it: keys begin with `k_`."""


class RegisterWorker(Struct, frozen=True, rename="camel", kw_only=True):
    """A worker introduces itself."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_WORKER_NAME_LENGTH)]
    slots: int
    labels: Annotated[list[Label], Meta(max_length=MAX_LABELS)] = []
    tasks: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MAX_FUNCTIONS)] = []
    """Names of the Python functions it has."""
    version: Annotated[str, Meta(max_length=100)] = ""
    cpu: float | None = None
    """CPUs it offers to runs that ask for some; None: as many as anybody asks for."""
    memory_mb: int | None = None
    dedicated: bool = False
    """Takes only runs that ask for one of its labels."""
    kinds: Annotated[list[Annotated[str, Meta(max_length=50)]], Meta(max_length=MAX_KINDS)] | None = None
    """The kinds of tasks that it takes; None, as older workers say: every one."""


class WorkerRegistered(Struct, frozen=True, rename="camel", kw_only=True):
    session: str
    """Under which the worker holds its runs. Ends with its lease; then everything it held is lost to it."""
    lease: Micros
    beat_every: Micros


class Assignment(AttemptIdentity, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One attempt of one run, for the worker that asked."""

    delay: Micros
    """Start this long after the answer arrived, never sooner."""
    fire_time: Micros
    serial: bool
    """Echoed in the report: tells the store which lock settling needs."""
    turn: tuple[str, str] | None = None
    """Echoed in the report, for the same reason."""
    spec: Raw
    """The job's canonical JSON (`JobSpec`) of the version that fell due."""
    task: Raw | UnsetType = UNSET
    """The registered task's JSON, when the spec names a `taskId`."""


class Poll(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Says what the worker has and what it could take, and waits for something to do."""

    session: SessionId
    seq: Sequential
    """Grows with every poll of the session."""
    free: int
    """Slots it could fill; 0 still waits for orders."""
    held: Annotated[list[int], Meta(max_length=MAX_HELD)]
    """Tokens of all attempts it has, those included whose end was not yet acknowledged by a receipt. Others of its
    session are given back at once, at no cost."""
    wait: Micros


class PollResponse(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    assignments: list[Assignment] = []
    cancel: list[int] = []
    """Tokens of held attempts to stop: a user cancelled the run. Report them `cancelled`. Repeated until reported."""
    pause: list[tuple[int, int]] = []
    """Tokens of held attempts that are to make room for others, each with a number that grows: stop its processes and
    lend its slots, or hand it back. Repeated until something is reported about that number."""
    kill: list[int] = []
    """Like `cancel`, but at once, without the grace that jobs get to stop by themselves."""
    lost: list[int] = []
    """Tokens that are no longer the worker's: stop at once, report nothing."""


class Beat(Struct, frozen=True, rename="camel", kw_only=True):
    """Renews the session's lease: it lasts `WorkerRegistered.lease` from when this was sent, no longer."""

    session: SessionId
    held: Annotated[list[int], Meta(max_length=MAX_HELD)]


class Started(Struct, frozen=True, rename="camel", kw_only=True):
    """An attempt that has been running for a moment (short ones only report their outcome)."""

    run_id: str
    token: Whole
    age: Age


class Progress(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    token: Whole
    fraction: Annotated[float, Meta(ge=0, le=1)]
    note: Annotated[str, Meta(max_length=MAX_NOTE_LENGTH)] = ""


class Pausing(Struct, frozen=True, rename="camel", kw_only=True):
    """What became of an order to make room."""

    run_id: str
    token: Whole
    number: Whole
    what: Literal["paused", "resumed", "refused"]
    """It stands still; it goes on; or it cannot be stopped, and is not to be asked again."""
    age: Age


class LogChunk(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    attempt: Whole
    token: Whole
    seq: Annotated[int, Meta(ge=0, lt=MAX_CHUNKS_PER_ATTEMPT)]
    """Position within the attempt, from 0: a chunk that was sent twice is kept once."""
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
    """How long ago it started; None: it never did."""
    took: Age = 0
    host: Annotated[str, Meta(max_length=300)] | None = None
    """The host and port it called, for an `http` task: its circuit is the whole fleet's business."""
    placed: bool = False
    """Its job names a place for results. A hint: the job tells which."""


class Report(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What happened, in one message. Sent again as it is when its answer was lost."""

    session: SessionId
    poll_seq: Whole
    """The poll that was under way when this was sent; `free` amends that one only."""
    free: Whole
    started: Annotated[list[Started], Meta(max_length=MAX_NOTES_PER_REPORT)] = []
    progress: Annotated[list[Progress], Meta(max_length=MAX_NOTES_PER_REPORT)] = []
    logs: Annotated[list[LogChunk], Meta(max_length=MAX_CHUNKS_PER_REPORT)] = []
    ended: Annotated[list[Ended], Meta(max_length=MAX_OUTCOMES_PER_REPORT)] = []
    pausing: Annotated[list[Pausing], Meta(max_length=MAX_NOTES_PER_REPORT)] = []


class ReportAck(Struct, frozen=True, rename="camel", kw_only=True):
    stale: list[int] = []
    """Tokens whose words were refused: somebody else's, or nobody's, by now. Stop these at once."""


class ServerFault(Unavailable):
    """The server answered that it failed (500), which may be for what the message holds: the same message may fail
    every time. Another server is tried, as for one that cannot be reached."""


class SessionLost(Exception):
    """The session's lease lapsed, or nobody knows it. Kill everything it held and say hello again."""


class WorkerProtocol(Protocol):
    """The server as a worker sees it. Raises `SessionLost`, or `Unavailable` when it cannot be reached."""

    async def hello(self, hello: RegisterWorker) -> WorkerRegistered: ...

    async def poll(self, poll: Poll) -> PollResponse: ...

    async def beat(self, beat: Beat) -> PollResponse:
        """Renew the lease; answers at once, without assignments."""
        ...

    async def report(self, report: Report) -> ReportAck: ...

    async def goodbye(self, session: str) -> None:
        """The worker leaves; whatever it still holds, which it never started, is given back at once."""
        ...


class KeyedWorkerProtocol(Protocol):
    """The same for callers that name the key which the worker has shown. A session belongs to the key of its hello:
    with another one, every message is answered as if there were no such session, and changes nothing."""

    async def hello(self, hello: RegisterWorker, key: str) -> WorkerRegistered: ...

    async def poll(self, poll: Poll, key: str) -> PollResponse: ...

    async def beat(self, beat: Beat, key: str) -> PollResponse: ...

    async def report(self, report: Report, key: str) -> ReportAck: ...

    async def goodbye(self, session: str, key: str) -> None: ...
