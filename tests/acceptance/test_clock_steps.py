"""I3, I7, I12, I22: the twelve ways in which a wall clock steps, with real processes (see docs/howto/clock.md).

A server and its worker are processes of their own, so that jobs live through a restart of the server. The witnesses are
lines that the jobs write, with the machine's steady clock.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clocked import WallClock
from tests.support.processes import Api, Process, data_dir, free_port, is_alive, start_worker, until
from tests.support.thorough import THOROUGH
from timeball.domain.instant import DAY, HOUR, SECOND, parse

YEARS = 12 * 365 * DAY
STEPS = {"+20s": 20 * SECOND, "+2h": 2 * HOUR, "+12y": YEARS, "-20s": -20 * SECOND, "-2h": -2 * HOUR, "-12y": -YEARS}
WITNESS = 'echo "$TIMEBALL_RUN_ID $TIMEBALL_ATTEMPT $(cut -d. -f1 /proc/uptime) $$" >> {file}; '
BACKOFF = 4

pytestmark = pytest.mark.timeout(300)


class Clocked(Process):
    """A process whose wall clock the test sets."""

    def __init__(self, folder: Path, clock: WallClock, arguments: list[str]) -> None:
        super().__init__(folder, arguments, launcher=("-m", "tests.support.clocked", str(clock.file)))


class House:
    """A server on SQLite and a worker beside it, with four jobs that are in the middle of something."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder, self.port = folder, free_port()
        self.clock = WallClock(folder / "wall-clock")
        self.api = Api(f"http://127.0.0.1:{self.port}")
        self.server = self._start()
        self.api.await_ready(self.server)
        self.worker = start_worker(folder, self.api, name="alice")
        self.api.await_workers(1)

    def _start(self, *flags: str) -> Process:
        arguments = ["server", "--port", str(self.port), "--data-dir", str(data_dir(self.folder)), *flags]
        return Clocked(self.folder, self.clock, arguments)

    def restart(self, *flags: str) -> None:
        self.server = self._start(*flags)
        self.api.await_ready(self.server)

    def refused(self) -> str:
        """What a server says that does not start."""
        with self._start() as process:
            assert process.popen.wait(60) == 78, process.output
            return process.output

    def close(self) -> None:
        self.worker.end()
        self.server.end()
        self.api.http.close()

    def job(self, name: str, then: str, **more: object) -> str:
        command = WITNESS.format(file=self.folder / name) + then
        return self.api.create({"task": {"kind": "shell", "command": command}, "timeout": "1h", **more})

    def lines(self, name: str) -> list[tuple[str, str, int, int]]:
        file = self.folder / name
        found = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(run, attempt, int(at), int(pid)) for run, attempt, at, pid in found]

    def busy(self) -> None:
        self.release = self.folder / "release"
        wait = f"while [ ! -e {self.release} ]; do sleep 0.1; done"
        self.every = self.job("every", "true", schedule={"type": "interval", "expression": "1s"}, catchUp="none")
        self.long = self.job("long", wait)
        self.once = self.job("once", wait, delivery="at_most_once")
        until(lambda: self.lines("long") and self.lines("once") and self.lines("every"), "the jobs to start")
        retry = {"maxRetries": 1, "backoff": [f"{BACKOFF}s"]}
        self.retrying = self.job("retrying", '[ "$TIMEBALL_ATTEMPT" = 2 ]', retry=retry)
        until(lambda: len(self.lines("retrying")) == 1, "its first attempt")

    def fires_go_on(self, *, after_years: bool = False) -> None:
        """The planner accounts for every second of twelve years in minutes: other jobs do not wait for it."""
        name = "fresh" if after_years else "every"
        if after_years:
            self.job("fresh", "true", schedule={"type": "interval", "expression": "1s"})
        seen = len(self.lines(name))
        until(lambda: len(self.lines(name)) >= seen + 2, "a job of every second to go on")

    def check(self, *, was_down: bool = False) -> None:
        """Nothing was killed, repeated or early. A server that was down cannot tell a step from time that passed, so
        a backoff may end by it."""
        assert all(is_alive(self.lines(name)[0][3]) for name in ("long", "once"))
        self.release.touch()
        for job_id in (self.long, self.once, self.retrying):
            run = until(lambda job_id=job_id: self.api.ended_run_of(job_id), "the jobs to end")
            assert run["status"] == "succeeded", run
        assert [attempt for _, attempt, _, _ in self.lines("long") + self.lines("once")] == ["1", "1"]
        first, second = self.lines("retrying")
        assert (first[0], first[1], second[1]) == (second[0], "1", "2")
        assert was_down or second[2] - first[2] >= BACKOFF - 1, (
            "a retry came before its backoff was over"
        )  # whole seconds
        runs = Counter(run for run, *_ in self.lines("every"))
        assert set(runs.values()) == {1}, "a fire was executed twice"
        found = self.api.call("GET", f"/v1/jobs/{self.every}/runs?limit=500")["items"]
        executed = [run["fireTime"] for run in found if run["runId"] in runs]
        assert len(set(executed)) == len(executed), "an instant has two runs"
        started = [(parse(run["startedAt"]), parse(run["fireTime"])) for run in found if run.get("startedAt")]
        assert [fire_time for at, fire_time in started if at < fire_time] == [], "a fire was early"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with contextlib.closing(House(tmp_path)) as house:
        yield house


def clock(house: House, accept: bool = False) -> dict:
    return house.api.call(*(("POST", "/v1/clock:accept") if accept else ("GET", "/v1/clock")))


@pytest.mark.parametrize("step", STEPS if THOROUGH else ["+2h", pytest.param("+20s", marks=pytest.mark.parts)])
def test_a_clock_that_steps_under_a_running_server(house: House, step: str) -> None:
    """I22: a short step ahead moves leases and timers; a long one holds planning; after a step back time goes on."""
    house.busy()
    house.clock.set(STEPS[step])
    if STEPS[step] > HOUR:
        until(lambda: clock(house)["planningHeldSince"], "planning to be held")
        assert "timeball clock accept" in house.api.call("GET", f"/v1/jobs/{house.every}/why")["answer"]
        assert clock(house, accept=True)["planningHeldSince"] is None
    house.fires_go_on(after_years=step == "+12y")
    ahead = clock(house)["aheadSeconds"]
    assert abs(ahead) < 1 if STEPS[step] > 0 else ahead < 0
    house.check()


@pytest.mark.parametrize("step", STEPS if THOROUGH else ["-12y", pytest.param("+20s", marks=pytest.mark.parts)])
def test_a_clock_that_steps_while_the_server_is_down(house: House, step: str) -> None:
    """I22: a start is refused, with both times, where the clock cannot be right; leases stand still in between."""
    house.busy()
    house.server.kill()
    house.clock.set(STEPS[step])
    if step in ("+20s", "+2h", "-20s"):
        house.restart()
        house.fires_go_on()
        house.check(was_down=True)
        return
    sentence = house.refused()
    assert "--accept-clock" in sentence
    assert "more than a year later" in sentence if STEPS[step] > 0 else "more than an hour earlier" in sentence
    house.restart("--accept-clock")
    assert ("planned anew" in house.server.output) is (STEPS[step] < 0)
    house.fires_go_on(after_years=step == "+12y")
    house.check(was_down=step == "+12y")
