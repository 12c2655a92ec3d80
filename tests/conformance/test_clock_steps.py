"""The twelve ways in which the wall clock of an embedded store may step: I3, I7, I15, I22 (see docs/howto/clock.md)."""

import contextlib
import sqlite3
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest

from tests.support.builders import job, one_shot, recurring, settlement, worker
from timeball.domain.errors import Conflict, TimeballError
from timeball.domain.instant import DAY, HOUR, SECOND, Micros, render
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.schedule.schedule import Date
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.server.loops.planner import Planner
from timeball.server.server import Server
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, seeded_rng

YEARS = 12 * 365 * DAY
LEASE = 15 * SECOND
BEGAN = 1_800_000_000 * SECOND
AHEAD = [20 * SECOND, 2 * HOUR, YEARS]
BACK = [-20 * SECOND, -2 * HOUR, -YEARS]
BROKEN = Failed(Failure(kind="exit", message="exit code 3", exit_code=3))


class Machine:
    """A machine whose wall clock can be set, with one store on it."""

    def __init__(self, path: Path, *, inline: bool = False) -> None:
        self.path = path
        self.inline = inline
        self.steady: Micros = 1_000 * SECOND
        self.offset: Micros = BEGAN
        self.store = self.make()

    def make(self, *, accept_clock: bool = False) -> SqliteStore:
        return SqliteStore(
            self.path, wall=self.wall, monotonic=lambda: self.steady, inline=self.inline, accept_clock=accept_clock
        )

    def wall(self) -> Micros:
        return self.steady + self.offset

    async def start(self, *, accept_clock: bool = False) -> SqliteStore:
        self.store = self.make(accept_clock=accept_clock)
        await self.store.open()
        return self.store

    async def live(self, length: Micros, beats: str | None = "w_1") -> None:
        """Let time pass as in a process with its loops: half a second at a time, with a beat every five."""
        for turn in range(length // (SECOND // 2)):
            self.steady += SECOND // 2
            if beats is not None and turn % 10 == 0:
                assert await self.store.renew([(beats, "local")], LEASE) != [None]
            assert await self.store.lapsed(10) == [], "a live worker's run was taken from it"

    async def is_due(self) -> bool:
        return bool((await self.store.claim([SlotRequest("w_1", "", 1)], 0)).claims)


@pytest.fixture(params=["threads", "inline"])
async def machine(request: pytest.FixtureRequest, tmp_path: Path):
    machine = Machine(tmp_path / "timeball.db", inline=request.param == "inline")
    await machine.start()
    yield machine
    await machine.store.close()


async def claimed(machine: Machine, **fields: object) -> Claim:
    store = machine.store
    await store.submit([one_shot(store.now(), **fields)])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    return claim


@pytest.mark.parametrize("step", AHEAD)
async def test_a_step_ahead_takes_no_run_from_a_live_worker(machine: Machine, step: Micros) -> None:
    """I7: leases move with the clock, also if the worker is about to renew only at their end."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    claim = await claimed(machine, timeout="30m")
    machine.steady += 14 * SECOND
    machine.offset += step
    assert await store.lapsed(10) == []
    assert await store.renew([("w_1", "local")], LEASE) != [None]
    await machine.live(90 * SECOND)
    assert (await store.unreported(("", ""), 10)).runs == []
    assert await store.settle([settlement(claim)]) != [None]


@pytest.mark.parametrize("step", AHEAD)
async def test_a_dead_workers_lease_ends_when_it_would_have_without_the_step(machine: Machine, step: Micros) -> None:
    """I7: the run goes to another worker after the lease, neither earlier nor later, on the steady clock."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    await claimed(machine)
    machine.steady += 5 * SECOND
    machine.offset += step
    await machine.live(9 * SECOND, beats=None)
    machine.steady += 2 * SECOND
    assert len(await store.lapsed(10)) == 1


@pytest.mark.parametrize("step", AHEAD)
async def test_a_backoff_lasts_as_long_as_without_the_step(machine: Machine, step: Micros) -> None:
    """I15: not early on the steady clock, either."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    claim = await claimed(machine, retry=Retry(max_retries=1, backoff=["30s"]))
    await store.settle([settlement(claim, BROKEN, at=store.now())])
    machine.offset += step
    await machine.live(29 * SECOND)
    assert not await machine.is_due()
    await machine.live(2 * SECOND)
    assert await machine.is_due()


async def test_a_short_step_ahead_brings_dates_nearer(machine: Machine) -> None:
    """I22: what is due at a date is due when the clock says so."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    await store.submit([one_shot(store.now(), at=store.now() + 25 * SECOND)])
    machine.offset += 20 * SECOND
    await machine.live(4 * SECOND)
    assert not await machine.is_due()
    await machine.live(2 * SECOND)
    assert await machine.is_due()
    assert store.now() == machine.wall()


async def next_fire(machine: Machine, job_id: str) -> Micros:
    """After a few turns of the planner."""
    server = Server(machine.store, SystemClock(), seeded_rng(1))
    (planner,) = (loop for loop in server.loops if isinstance(loop, Planner))
    for _ in range(5):
        await planner.turn()
    found = (await machine.store.jobs([job_id]))[job_id].job.next_fire_at
    assert found is not None
    return found


@pytest.mark.parametrize("step", AHEAD[1:])
async def test_a_long_step_ahead_holds_planning_for_a_minute(machine: Machine, step: Micros) -> None:
    """I20, I22: dates are uncertain until the clock has agreed with the steady one for 60 s."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    before = store.now()
    submitted = recurring(before, seconds=86_400, next_fire_at=before + 30 * SECOND, catch_up="none")
    await store.submit([submitted])
    machine.offset += step
    assert store.now() == before
    await machine.live(59 * SECOND)
    assert store.planning_held()
    assert store.now() == before + 59 * SECOND
    state = store.clock_state()
    assert (state.held_since, state.ahead, state.confirmed_in) == (before, step, SECOND)
    assert await next_fire(machine, submitted.job.id) == before + 30 * SECOND
    await machine.live(2 * SECOND)
    assert not store.planning_held()
    assert store.now() == machine.wall()
    assert await next_fire(machine, submitted.job.id) > store.now()


@pytest.mark.parametrize("step", AHEAD[1:])
async def test_a_user_may_accept_a_long_step(machine: Machine, step: Micros) -> None:
    store = machine.store
    machine.offset += step
    store.now()
    assert store.planning_held()
    state = await store.accept_clock()
    assert (state.held_since, state.store_time) == (None, machine.wall())
    assert store.now() == machine.wall()
    assert not store.planning_held()


async def test_a_long_step_that_is_taken_back_changes_nothing(machine: Machine) -> None:
    """A clock that was wrong for half a minute leaves no trace in the store."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    before = store.now()
    machine.offset += YEARS
    await machine.live(30 * SECOND)
    machine.offset -= YEARS
    await machine.live(SECOND)
    assert not store.planning_held()
    assert store.now() == before + 31 * SECOND == machine.wall()


async def test_a_short_step_that_a_long_one_hid_is_accepted_when_the_long_one_is_taken_back(machine: Machine) -> None:
    """I4: the store's time does not stay behind the wall clock."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    before = store.now()
    machine.offset += 1_720 * SECOND + 2 * HOUR
    await machine.live(5 * SECOND)
    assert store.planning_held()
    assert store.now() == before + 5 * SECOND
    machine.offset -= 2 * HOUR
    await machine.live(SECOND)
    assert not store.planning_held()
    assert store.now() == before + 1_726 * SECOND == machine.wall()


async def test_a_clock_that_steps_again_has_to_agree_for_another_minute(machine: Machine) -> None:
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    machine.offset += 2 * HOUR
    await machine.live(50 * SECOND)
    machine.offset += HOUR
    await machine.live(50 * SECOND)
    assert store.planning_held()
    await machine.live(11 * SECOND)
    assert store.now() == machine.wall()


@pytest.mark.parametrize("step", BACK)
async def test_a_step_back_lets_time_go_on_until_the_wall_clock_has_caught_up(machine: Machine, step: Micros) -> None:
    """I22: nothing is stamped earlier than what was stamped before; leases last, and end."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    claim = await claimed(machine)
    before = store.now()
    machine.offset += step
    assert store.now() == before
    await machine.live(30 * SECOND)
    assert store.now() == before + 15 * SECOND
    await machine.live(30 * SECOND)
    caught_up = step == -20 * SECOND
    assert store.now() == (machine.wall() if caught_up else before + 30 * SECOND)
    assert await store.settle([settlement(claim)]) != [None]
    if step < -HOUR:
        with pytest.raises(Conflict, match="--accept-clock"):
            await store.accept_clock()


async def restarted(machine: Machine, step: Micros, *, accept_clock: bool = False) -> SqliteStore:
    await machine.store.close()
    machine.steady += SECOND
    machine.offset += step
    return await machine.start(accept_clock=accept_clock)


@pytest.mark.parametrize("step", [*AHEAD[:2], BACK[0]])
async def test_leases_stand_still_over_a_restart(machine: Machine, step: Micros) -> None:
    """I7: a worker that held its run all the while keeps it, however the clock stepped in between."""
    store = machine.store
    await store.register(worker("w_1"), LEASE)
    claim = await claimed(machine, timeout="30m")
    before = store.now()
    store = await restarted(machine, step)
    assert store.now() == (machine.wall() if step > 0 else before)
    assert await store.lapsed(10) == []
    assert await store.renew([("w_1", "local")], LEASE) != [None]
    await machine.live(30 * SECOND)
    assert (await store.unreported(("", ""), 10)).runs == []
    assert await store.settle([settlement(claim)]) != [None]


@pytest.mark.parametrize("step", [YEARS, *BACK[1:]])
async def test_a_start_with_a_clock_that_cannot_be_right_is_refused(machine: Machine, step: Micros) -> None:
    """I22: before anything is stamped; the sentence names both times."""
    mark = machine.store.now()
    await machine.store.close()
    stamped = machine.path.read_bytes()
    machine.offset += step
    with pytest.raises(TimeballError) as refused:
        await machine.start()
    assert refused.value.code == "clock_refused"
    assert render(mark)[:16] in refused.value.detail
    assert render(machine.wall())[:16] in refused.value.detail
    assert machine.path.read_bytes() == stamped
    machine.offset -= step
    await machine.start()


@pytest.mark.parametrize("step", [YEARS, *BACK[1:]])
async def test_a_start_with_an_accepted_clock_sets_the_mark_to_it(machine: Machine, step: Micros) -> None:
    store = await restarted(machine, step, accept_clock=True)
    assert store.now() == machine.wall()
    await restarted(machine, 0)


class Driven:
    """The loops of a server, one turn after the other, and a worker that succeeds at once; what it executed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.executed: list[tuple[str, Micros, int]] = []
        """Job, instant and attempt."""

    async def __call__(self, length: Micros, *, tick: Micros = 5 * SECOND, failing: str | None = None) -> None:
        store = self.machine.store
        server = Server(store, SystemClock(), seeded_rng(1))
        (planner,) = (loop for loop in server.loops if isinstance(loop, Planner))
        for _ in range(length // tick):
            self.machine.steady += tick
            assert await store.renew([("w_1", "local")], LEASE) != [None]
            assert await store.lapsed(10) == []
            while not await planner.turn():
                pass
            claims = (await store.claim([SlotRequest("w_1", "", 100)], 0)).claims
            self.executed += [(claim.job_id, claim.fire_time, claim.attempt) for claim in claims]
            await store.settle(
                [settlement(each, BROKEN if each.job_id == failing else None, at=store.now()) for each in claims]
            )

    def of(self, job_id: str) -> list[Micros]:
        return [fire_time for name, fire_time, _ in self.executed if name == job_id]


@pytest.mark.parametrize("step", [2 * HOUR, 4 * 365 * DAY])
@pytest.mark.parametrize("catch_up", ["none", "last"])
async def test_a_store_that_was_ahead_goes_on_where_its_clock_is(tmp_path: Path, step: Micros, catch_up: str) -> None:
    """I2, I3, I5, I12: whatever lived in the wrong time is neither early, nor lost, nor doubled."""
    machine = Machine(tmp_path / "timeball.db", inline=True)
    store = await machine.start()
    began = store.now()
    drive = Driven(machine)
    await store.register(worker("w_1"), LEASE)
    every = recurring(began, seconds=600, catch_up=catch_up)
    dated = Submission(job(began, schedule=Date(expression=render(began + HOUR))), ())
    await store.submit([every, dated])
    await drive(20 * SECOND)

    machine.offset += step
    store.now()
    await store.accept_clock()
    made_then = recurring(store.now(), seconds=600, catch_up=catch_up)
    retrying = one_shot(store.now(), retry=Retry(max_retries=1, backoff=["20s"]))
    await store.submit([made_then, retrying])
    await drive(685 * SECOND, failing="nothing yet")
    failing = one_shot(store.now(), retry=Retry(max_retries=1, backoff=["20s"]))
    await store.submit([failing])
    await drive(15 * SECOND, failing=failing.job.id)
    held = one_shot(store.now(), delivery="at_most_once")
    await store.submit([held])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    waiting = one_shot(store.now())
    await store.submit([waiting])
    ahead = len(drive.executed)
    await store.close()

    machine.steady += SECOND
    machine.offset -= step
    store = await machine.start(accept_clock=True)
    assert store.now() == machine.wall() == began + 721 * SECOND
    await drive(5 * SECOND)
    assert drive.of(failing.job.id) == drive.of(failing.job.id)[:1], "a backoff ended early"
    await drive(9_000 * SECOND)
    assert await store.settle([settlement(claim, at=store.now())]) != [None], "a run was taken from its worker"

    assert len(drive.executed) == len(set(drive.executed)), "an instant was executed twice"
    assert [at for _, at, _ in drive.executed[ahead:] if at > machine.wall()] == [], "an instant was executed early"
    attempts = [attempt for job_id, _, attempt in drive.executed if job_id == failing.job.id]
    assert attempts == [1, 2]
    assert len(drive.of(waiting.job.id)) == len(drive.of(retrying.job.id)) == len(drive.of(dated.job.id)) == 1
    assert drive.of(held.job.id) == []
    come = began + 9_700 * SECOND
    assert sorted(at for at in drive.of(every.job.id) if at < come) == [
        began + number * 600 * SECOND for number in range(2, 17)
    ]
    grid = [at for job_id, at, _ in drive.executed[ahead:] if job_id == made_then.job.id]
    assert [later - at for at, later in pairwise(grid)] == [600 * SECOND] * 14
    await store.close()
    with contextlib.closing(sqlite3.connect(machine.path)) as rows:
        (fires,) = rows.execute(
            "SELECT SUM(fires) FROM history WHERE job_id = ? AND fire_until < ?", (every.job.id, come)
        ).fetchone()
    assert fires == 16, "the ledger has one verdict for each instant"


@pytest.mark.parametrize(
    "crash", ["timeball.stores.sqlite.tx.move_timers", "timeball.stores.sqlite.tx.SteadyClock.jump"]
)
async def test_a_crash_around_the_commit_leaves_leases_and_time_together(tmp_path: Path, crash: str) -> None:
    """I7: what is left of a lease is the same, whether the transaction that absorbs a step was committed or not."""
    machine = Machine(tmp_path / "timeball.db", inline=True)
    store = await machine.start()
    await store.register(worker("w_1"), LEASE)
    await claimed(machine)
    machine.steady += 10 * SECOND
    await store.lapsed(10)
    machine.offset += 20 * SECOND
    store.now()
    with mock.patch(crash, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        await store.lapsed(10)
    await store.close()
    store = await machine.start()
    (found,) = await store.workers()
    assert found.lease_until - store.now() == 5 * SECOND
    assert store.now() == machine.wall()
    await store.close()
