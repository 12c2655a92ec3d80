"""The cost of a job in the gateway, in Python calls: a test that measures time would not notice one more."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType, SimpleNamespace
from typing import Any

from timeball.domain.run.lifecycle import Status, Succeeded
from timeball.operation.known_limits import KnownLimits
from timeball.ports.store.runs import Claim, Settled, Settlement
from timeball.ports.worker_protocol import Ended, Poll, RegisterWorker, Report
from timeball.server.worker_gateway.gateway import WorkerGateway

JOBS = 1_000
COUNTED = ("timeball/server/worker_gateway/", "timeball/ports/")


class Store:
    """Knows nothing, and costs nothing."""

    def now(self) -> int:
        return 1_000_000

    async def register(self, *_: Any, **__: Any) -> bool:
        return False


async def settle(settlements: Sequence[Settlement]) -> list[Settled]:
    return [Settled(settlements[0].run_id, Status.SUCCEEDED)] * len(settlements)


async def calls(batch: int) -> Counter[str]:
    """From polls that wait, claims for them and reports of their ends, until all jobs are done."""
    context: Any = SimpleNamespace(
        store=Store(),
        clock=SimpleNamespace(monotonic=lambda: 5),
        rng=random.Random(1),
        wakeups=None,
        run_events=None,
        limits=KnownLimits(),
        large_value_store=SimpleNamespace(takes=False),
        tracing=None,
    )
    gateway = WorkerGateway(context, settle)  # type: ignore[arg-type]
    session = (await gateway.hello(RegisterWorker(name="w", slots=batch))).session
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and any(part in frame.f_code.co_filename for part in COUNTED):
            counted[frame.f_code.co_name] += 1

    for seq in range(1, JOBS // batch + 1):
        tokens = range(seq * batch, (seq + 1) * batch)
        claims = [claim(session, seq, token) for token in tokens]
        ended = [
            Ended(run_id="r", job_id="j", attempt=1, token=token, serial=False, outcome=Succeeded(), age=1)
            for token in tokens
        ]
        sys.setprofile(count)
        try:
            polling = asyncio.create_task(
                gateway.poll(Poll(session=session, seq=seq, free=batch, held=[], wait=60_000_000))
            )
            await asyncio.sleep(0)
            await gateway.deliver(claims)
            assert len((await polling).assignments) == batch
            await gateway.report(Report(session=session, poll_seq=seq, free=batch, ended=ended))
        finally:
            sys.setprofile(None)
    return counted


def claim(session: str, poll: int, token: int) -> Claim:
    return Claim(
        run_id="r",
        job_id="j",
        attempt=1,
        token=token,
        serial=False,
        session=session,
        poll=poll,
        fire_time=0,
        eligible_at=0,
        spec=b"{}",
        task=None,
    )


async def test_a_job_is_converted_twice_and_costs_no_other_call() -> None:
    counted = await calls(batch=500)
    each = {name: number for name, number in counted.items() if number >= JOBS}
    assert each == {"assignment_of": JOBS, "of": JOBS}
    assert counted.total() < 2.2 * JOBS


async def test_a_poll_its_answer_and_a_report_for_one_job_stay_cheap() -> None:
    counted = await calls(batch=1)
    assert counted.total() <= 30 * JOBS, counted
