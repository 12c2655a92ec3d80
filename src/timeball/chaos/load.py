"""The load of a campaign: repeating jobs that fire every second, and one-shot jobs that are submitted continuously."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from timeball import system
from timeball.chaos.history import Promise
from timeball.client.async_client import AsyncClient
from timeball.client.models.job import JobOptions
from timeball.domain.errors import TimeballError, Unavailable
from timeball.domain.ids import made_at
from timeball.domain.instant import MILLISECOND, SECOND, Micros, of, to_datetime
from timeball.ports.clock import Rng
from timeball.tasks import NOOP

NAME: Final = "timeball-chaos"
LEAD: Final = 3 * SECOND
"""Microseconds from the submission of the repeating jobs to their first fire."""
EVERY: Final = 0.25
"""Seconds between two submissions of one-shot jobs."""
AHEAD: Final = 3 * SECOND
"""Maximum number of microseconds from the submission of a one-shot job to its fire."""
PAUSE: Final = 0.2
"""Seconds between two tries of a submission."""
SHARE: Final = 2 / 3
"""The share of fires that belong to repeating jobs."""


class Load:
    """Submits jobs for `fires` fires per second, for `seconds` seconds. A submission is repeated with the same
    idempotency key until it is answered, or for at most `seconds` + `timeout` seconds.
    """

    def __init__(
        self, client: AsyncClient, function: str, *, fires: int, seconds: float, rng: Rng, timeout: float
    ) -> None:
        self.tag = f"{NAME}-{system.rng().getrandbits(48):012x}"
        self.promises: list[Promise] = []
        self.unanswered = 0
        """Number of jobs whose submission was never answered: they may be accepted or not."""
        self.tries_failed = 0
        self.began: Micros = 0
        """The time of the first fire of the repeating jobs, on the store's clock."""
        self._client = client
        self._function = function
        self._repeating = max(1, round(fires * SHARE))
        self._once = max(0, fires - self._repeating)
        self._seconds = seconds
        self._rng = rng
        self._timeout = timeout
        self._ahead: Micros = 0
        """Microseconds that the store's clock is ahead of the clock of this machine."""

    async def begin(self) -> None:
        """Submit one job to measure the store's clock, then the repeating jobs. Return at their first fire."""
        asked = system.wall()
        probe = await self._client.create_job(NAME, **self._options())
        self._ahead = 0 if probe.created_at is None else of(probe.created_at) - asked
        self.promises.append(Promise(probe.job_id, None))
        self.began = (self._now() + LEAD) // SECOND * SECOND
        fires = tuple(range(self.began, self.began + int(self._seconds * SECOND), SECOND))
        start, end = to_datetime(fires[0]), to_datetime(fires[-1] + SECOND // 2)
        await self._submit(
            [
                {**self._options(), "cron": "* * * * * *", "start_at": start, "end_at": end, "overlap": "allow"}
                for _ in range(self._repeating)
            ],
            [fires] * self._repeating,
        )
        await asyncio.sleep(max(0.0, (self.began - self._now()) / SECOND))

    async def go_on(self) -> None:
        """Submit one-shot jobs for `seconds` seconds (see `Load`). Return when all submissions are answered or have
        timed out."""
        submissions = []
        owed = 0.0
        for _ in range(int(self._seconds / EVERY)):
            owed += self._once * EVERY
            count = int(owed)
            owed -= count
            if count:
                submissions.append(asyncio.create_task(self._submit_once(count)))
            await asyncio.sleep(EVERY)
        await asyncio.gather(*submissions)

    async def _submit_once(self, count: int) -> None:
        jobs: list[JobOptions] = []
        fires: list[tuple[Micros, ...] | None] = []
        for _ in range(count):
            if self._rng.random() < 0.25:
                jobs.append(self._options())
                fires.append(None)
            else:
                at = self._now() + int(self._rng.random() * AHEAD) // MILLISECOND * MILLISECOND
                jobs.append({**self._options(), "at": to_datetime(at)})
                fires.append((at,))
        await self._submit(jobs, fires)

    async def _submit(self, jobs: Sequence[JobOptions], fires: Sequence[tuple[Micros, ...] | None]) -> None:
        key = f"{self._rng.getrandbits(128):032x}"
        named: list[JobOptions] = [{"name": NAME, **job} for job in jobs]
        patient_until = system.monotonic() + int((self._seconds + self._timeout) * SECOND)
        while system.monotonic() < patient_until:
            try:
                created = await self._client.batch(named, f"{self.tag}-{key}")
            except (Unavailable, TimeoutError):
                self.tries_failed += 1
                await asyncio.sleep(PAUSE)
                continue
            for item, due in zip(created, fires, strict=True):
                if item.job_id is None:
                    raise TimeballError(f"a job was refused: {item.error.detail if item.error else 'without a reason'}")
                self.promises.append(Promise(item.job_id, due, made_at(item.job_id)))
            return
        self.unanswered += len(jobs)

    def _options(self) -> JobOptions:
        """Return the options of all jobs: more retries than there can be kills, and a catch-up of all missed fires."""
        options: JobOptions = {
            "python": self._function,
            "max_retries": 50,
            "catch_up": "all",
            "catch_up_window": "1h",
            "tags": [self.tag],
        }
        if self._function != NOOP:
            options["parameters"] = {"seconds": self._length()}
        return options

    def _length(self) -> float:
        """Return the duration of a run in seconds. Most are short; some are long enough to be interrupted."""
        return round(self._rng.random() ** 20 * 4, 3)

    def _now(self) -> Micros:
        return system.wall() + self._ahead
