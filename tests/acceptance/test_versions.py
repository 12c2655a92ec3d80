"""I27: two versions keep all promises side by side. A server and a worker of an earlier commit (see
`tests.support.versions`) share one PostgreSQL with a server and a worker of this one, in the order of an upgrade and in
the order of a roll-back; and a worker of either version works on a server of the other. The runs are the witnesses.

`TIMEBALL_THOROUGH=1` makes it 2,000 jobs instead of 200, and kills a worker in the roll-back as well.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.revisions import ROOT
from tests.support.attempts import Attempt, attempts, ended
from tests.support.postgres import PostgresCluster
from tests.support.processes import WAIT_SECONDS, Api, Process, running_server, start_worker, until
from tests.support.thorough import THOROUGH
from tests.support.versions import absence, source_before

SCALE = 10 if THOROUGH else 1
KEYS = ("red", "green", "blue")
PER_KEY, IMMEDIATE, DATED, TICKING, WORKFLOWS = 10 * SCALE, 48 * SCALE, 16 * SCALE, 4, 2
"""Of each of two rounds, 100 jobs: 30 ordered, 48 at once (16 of them at most once), 16 dated, 4 each second and 2
workflows."""
TASKS = "tests.acceptance.version_tasks"
RETRY = {"maxRetries": 20, "backoff": "fixed", "base": "0s"}
RETRY_ONCE = {"maxRetries": 1, "backoff": "fixed", "base": "0s"}
ONCE = {"delivery": "at_most_once"}
SLOTS = 8
LEASE = 15.0
AFTER = 20
"""Jobs that are submitted to the second server when the first one and its worker leave."""

pytestmark = pytest.mark.timeout(900 if THOROUGH else 240)

Environments = dict[str, dict[str, str]]


@pytest.fixture(scope="session")
def environments(pytestconfig: pytest.Config) -> Environments:
    """The environment in which `python -m timeball` is the version of this name. The earlier one stays in the cache of
    pytest: to compile it takes longer than some of the tests."""
    assert pytestconfig.cache is not None
    sources = {"old": source_before(pytestconfig.cache.mkdir("timeball-versions")), "new": ROOT / "src"}
    return {name: {"PYTHONPATH": str(source)} for name, source in sources.items()}


@pytest.fixture
def blank_dsn(postgres: PostgresCluster) -> Iterator[str]:
    """A database without a schema: the first server makes it."""
    dsn = postgres.create_database()
    yield dsn
    postgres.drop_database(dsn)


# --- what is submitted ----------------------------------------------------------------------------------------------


@dataclass
class Load:
    """Jobs of every kind, for two servers in turn."""

    witness: Path
    gate: Path
    servers: list[Api]
    jobs: dict[str, Api] = field(default_factory=dict)
    """Jobs that have one run, by the server that took them."""
    once: set[str] = field(default_factory=set)
    ticking: dict[str, str] = field(default_factory=dict)
    """Jobs that fire each second: their groups in the witness file."""
    workflow_runs: dict[str, str] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)
    """Runs that the witness file must have in the end, except of those at most once."""
    _began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    _turn: int = 0

    def submit_long(self) -> None:
        """Jobs that are busy for a while: with ordering keys, with tasks after each other, with a fire each second."""
        for _ in range(TICKING):
            self._submit_ticking()
        for _ in range(WORKFLOWS):
            self._begin_workflow()
        for _ in range(2):
            self._submit_ordered(PER_KEY // 2)

    def submit_short(self) -> None:
        for number in range(IMMEDIATE):
            if number % 3:
                self.submit_one("plain")
            else:
                self.submit_one("once", **ONCE)
        for number in range(DATED):
            at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1 + 2 * number / DATED)
            self.submit_one("dated", schedule={"type": "date", "expression": at.isoformat()})

    def submit_one(self, group: str, **more: Any) -> str:
        api = self._next_server()
        job_id = api.create(self._job(group, **more))
        self._note(job_id, group, api, more)
        return job_id

    def hold(self, label: str, **more: Any) -> str:
        """A run that a worker with this label executes until the gate is open."""
        api = self._next_server()
        task = {"kind": "python", "function": "version.hold"}
        parameters = {"witness": str(self.witness), "group": "held", "gate": str(self.gate)}
        job_id = api.create({"task": task, "parameters": parameters, "runsOn": [label], "retry": RETRY, **more})
        self._note(job_id, "held", api, more)
        return job_id

    def _note(self, job_id: str, group: str, api: Api, more: dict[str, Any]) -> None:
        self.jobs[job_id] = api
        if more.get("delivery"):
            self.once.add(job_id)
        else:
            self.groups[group] += 1

    def _submit_ordered(self, count: int) -> None:
        """A batch for each key, whose fire times passed long ago and follow those of the batch before."""
        api = self._next_server()
        jobs = []
        for key in KEYS:
            for number in range(self.groups[key], self.groups[key] + count):
                at = self._began + dt.timedelta(seconds=number)
                date = {"type": "date", "expression": at.isoformat()}
                jobs.append(self._job(key, orderingKey=key, schedule=date))
            self.groups[key] += count
        random.Random(len(self.jobs)).shuffle(jobs)
        answer = api.call("POST", "/v1/jobs:batch", json=jobs)
        self.jobs |= {item["jobId"]: api for item in answer["items"]}

    def _submit_ticking(self) -> None:
        group = f"tick-{len(self.ticking)}"
        schedule = {"type": "cron", "expression": "* * * * * *"}
        job_id = self._next_server().create(self._job(group, schedule=schedule, overlap="allow", catchUp="all"))
        self.ticking[job_id] = group

    def _begin_workflow(self) -> None:
        """a, then b and c, then d."""
        name = f"flow-{len(self.workflow_runs)}"
        needs = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
        tasks = [{"name": task, "needs": needed, **self._job(f"{name}-{task}")} for task, needed in needs.items()]
        api = self._next_server()
        made = api.call("POST", "/v1/workflows", expect=201, json={"name": name, "tasks": tasks})
        (run,) = api.call("GET", f"/v1/workflows/{made['workflowId']}/runs")["items"]
        self.workflow_runs[run["runId"]] = name
        self.groups.update(f"{name}-{task}" for task in needs)

    def _job(self, group: str, **more: Any) -> dict[str, Any]:
        return {
            "task": {"kind": "python", "function": "order.step"},
            "parameters": {"witness": str(self.witness), "group": group, "longest": 0.02},
            "retry": RETRY,
            **more,
        }

    def _next_server(self) -> Api:
        self._turn += 1
        return self.servers[self._turn % len(self.servers)]


# --- what must be true of it ----------------------------------------------------------------------------------------


def every_run_succeeded_or_was_interrupted_at_most_once(load: Load, seen: list[Attempt], gone: dict[int, int]) -> None:
    by_run: dict[str, list[Attempt]] = defaultdict(list)
    for each in seen:
        by_run[each.run].append(each)
    for run_attempts in by_run.values():
        assert all(each.pid in gone for each in run_attempts[:-1]), "only an interrupted attempt is repeated"
    for job_id, taker in load.jobs.items():
        (other,) = (api for api in load.servers if api is not taker)
        (run,) = other.call("GET", f"/v1/jobs/{job_id}/runs")["items"]
        made = by_run[run["runId"]]
        if job_id in load.once and run["status"] == "failed":
            assert len(made) <= 1
            assert all(each.pid in gone for each in made), run
            assert gone, run
        else:
            assert run["status"] == "succeeded", run
            assert made[-1].how == "end"
            assert len(made) == 1 or job_id not in load.once, "at most once is not twice"


def no_run_is_missing(load: Load, seen: list[Attempt]) -> None:
    runs = {(each.group, each.run) for each in seen}
    counted = Counter(group for group, _ in runs)
    assert {group: counted[group] for group in load.groups if group != "held"} == {
        group: count for group, count in load.groups.items() if group != "held"
    }
    for run_id, name in load.workflow_runs.items():
        for api in load.servers:
            shown = api.call("GET", f"/v1/workflow-runs/{run_id}")
            assert (shown["status"], shown["counts"]) == ("succeeded", {"succeeded": 4}), name
        first_end = {each.group: each.until for each in reversed(seen) if each.how == "end"}
        starts = {each.group: each.start for each in reversed(seen)}
        for task, needed in (("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")):
            assert first_end[f"{name}-{needed}"] < starts[f"{name}-{task}"]


def keys_keep_their_order(seen: list[Attempt]) -> None:
    for key in KEYS:
        mine = [each for each in seen if each.group == key]
        order = [(each.fire, each.number) for each in mine]
        assert order == sorted(order)
        assert all(earlier.until < later.start for earlier, later in pairwise(mine))
        print(f"{key}: {len(mine)} attempts by processes {dict(Counter(each.pid for each in mine))}")


def ledgers_are_complete(load: Load, seen: list[Attempt]) -> None:
    fires: dict[str, set[str]] = defaultdict(set)
    for each in seen:
        fires[each.group].add(each.fire)
    for job_id in (*load.jobs, *load.ticking):
        one, other = (api.call("GET", f"/v1/jobs/{job_id}/ledger") for api in load.servers)
        assert one == other
        assert one["due"] == sum(one["counts"].values()), one
        assert "open" not in one["counts"], one
        if job_id in load.ticking:
            found = sorted(map(dt.datetime.fromisoformat, fires[load.ticking[job_id]]))
            assert len(found) == one["due"], "each fire was executed"
            assert {later - earlier for earlier, later in pairwise(found)} == {dt.timedelta(seconds=1)}
            assert set(one["counts"]) <= {"on_time", "late", "caught_up"}, one["counts"]


# --- the tests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param("old", "new", id="upgrade"), pytest.param("new", "old", id="roll-back", marks=pytest.mark.parts)],
)
def test_two_versions_share_a_store(
    tmp_path: Path,
    postgres: PostgresCluster,
    blank_dsn: str,
    environments: Environments,
    first: str,
    second: str,
) -> None:
    """The first server makes the schema, the second one joins, the first one leaves. Each has a worker of its version.
    In the upgrade the worker of the new version is killed with runs in its hands."""
    processes: dict[str, Process] = {}
    apis: dict[str, Api] = {}
    workers: dict[str, Process] = {}
    versions: dict[int, str] = {}
    gone: dict[int, int] = {}
    with contextlib.ExitStack() as stack:

        def hire(version: str, name: str) -> None:
            worker = start_worker(
                tmp_path,
                apis[version],
                name=name,
                slots=SLOTS,
                tasks=TASKS,
                flags=["--label", version],
                environment=environments[version],
            )
            workers[version] = stack.enter_context(worker)
            versions[worker.pid] = version

        for version in (first, second):
            entered = running_server(tmp_path, blank_dsn, environment=environments[version])
            processes[version], apis[version] = stack.enter_context(entered)
            hire(version, version)
        apis[first].await_workers(2)
        load = Load(tmp_path / "witness", tmp_path / "gate", [apis[first], apis[second]])
        load.submit_long()
        if second == "new" or THOROUGH:
            load.hold("new")
            load.hold("new", **ONCE)
            until(lambda: sum(each.group == "held" for each in attempts(load.witness)) == 2, "two runs to be held")
            killed = workers["new"]
            killed.kill()
            gone[killed.pid] = time.monotonic_ns()
            hire("new", "another")
        load.submit_short()
        load.gate.touch()
        load.submit_long()
        load.submit_short()
        settle(load, postgres, blank_dsn)

        seen = ended(attempts(load.witness), gone)
        every_run_succeeded_or_was_interrupted_at_most_once(load, seen, gone)
        no_run_is_missing(load, seen)
        keys_keep_their_order(seen)
        ledgers_are_complete(load, seen)
        by_version = Counter(versions[each.pid] for each in seen)
        print(f"{len(load.jobs)} jobs, {len(seen)} attempts: {dict(by_version)}")
        assert set(by_version) == {"old", "new"}

        leaving = (workers[first], processes[first])
        for process in leaving:
            process.popen.terminate()
        load.servers = [apis[second]]
        after = [load.submit_one("plain") for _ in range(AFTER)]
        for process in leaving:
            assert process.popen.wait(WAIT_SECONDS) == 0, process.output
        for job_id in after:
            run = until(lambda job_id=job_id: apis[second].ended_run_of(job_id), "a run on the server that stays")
            assert run["status"] == "succeeded", run
        for process in (*processes.values(), *workers.values()):
            assert "Traceback" not in process.output, process.output
            process.kill()  # all at once: one after the other they would take their time


def settle(load: Load, postgres: PostgresCluster, dsn: str) -> None:
    """Wait until all has ended. Jobs that fire each second are paused when all others have, in turn by each server."""
    for run_id in load.workflow_runs:
        until(lambda run_id=run_id: load.servers[0].call("GET", f"/v1/workflow-runs/{run_id}")["endTime"], "a workflow")
    no_other_run = (
        "SELECT COUNT(*) FROM jobs j WHERE j.spec::json->'parameters'->>'group' NOT LIKE 'tick-%' "
        "AND NOT EXISTS (SELECT FROM history h WHERE h.job_id = j.id)"
    )
    until(lambda: postgres.fetch_value(no_other_run, dsn) == 0, "all jobs to have ended", 10 * LEASE)
    for number, job_id in enumerate(load.ticking):
        load.servers[number % 2].call("POST", f"/v1/jobs/{job_id}/pause", json={})
    until(lambda: postgres.fetch_value("SELECT COUNT(*) FROM runs", dsn) == 0, "all runs to end", 2 * LEASE)
    assert postgres.fetch_value("SELECT COUNT(*) FROM turns WHERE holder IS NOT NULL", dsn) == 0


@pytest.mark.parametrize(("server", "worker"), [("new", "old"), ("old", "new")], ids=["old-worker", "new-worker"])
def test_a_worker_of_one_version_works_on_a_server_of_the_other(
    tmp_path: Path, blank_dsn: str, environments: Environments, server: str, worker: str
) -> None:
    tmp_path.chmod(0o755)
    with (
        running_server(tmp_path, blank_dsn, environment=environments[server]) as (_, api),
        start_worker(
            tmp_path, api, name="crossed", slots=SLOTS, tasks=TASKS, environment=environments[worker]
        ) as process,
    ):
        api.await_workers(1)
        load = Load(tmp_path / "witness", tmp_path / "gate", [api])
        for _ in range(IMMEDIATE):
            load.submit_one("plain")
        held = api.create(
            {
                "task": {"kind": "python", "function": "version.hold"},
                "parameters": {"witness": str(load.witness), "group": "held", "gate": str(load.gate)},
            }
        )
        told = api.create({"task": {"kind": "python", "function": "version.result"}})
        shell = api.create({"task": {"kind": "shell", "command": "echo hello; exit 3"}, "retry": RETRY_ONCE})
        for job_id in load.jobs:
            run = until(lambda job_id=job_id: api.ended_run_of(job_id), "a plain run to end")
            assert (run["status"], run["attempt"]) == ("succeeded", 1)
        run = until(lambda: api.ended_run_of(told), "the run with a result to end")
        result = api.call("GET", f"/v1/runs/{run['runId']}/result")
        assert result["source"].startswith(environments[worker]["PYTHONPATH"])
        assert "a line of output" in str(api.call("GET", f"/v1/runs/{run['runId']}/logs"))
        run = until(lambda: api.ended_run_of(shell), "the shell job to end")
        assert (run["status"], run["attempt"]) == ("dead", 2)
        assert "hello" in str(api.call("GET", f"/v1/runs/{run['runId']}/logs"))
        run = until(lambda: (found := api.run_of(held)) and found["status"] == "running" and found, "the held run")
        api.call("POST", f"/v1/runs/{run['runId']}/cancel")
        run = until(lambda: api.ended_run_of(held), "the cancelled run to end")
        assert run["status"] == "cancelled"
        assert set(Counter((each.run, each.number) for each in attempts(load.witness)).values()) == {1}
        assert process.stop() == 0, process.output


def test_a_worker_of_the_earlier_version_is_drained_as_far_as_it_can_be(
    tmp_path: Path, blank_dsn: str, environments: Environments
) -> None:
    """It ignores the order, which it does not know. Nothing is claimed for it, and it finishes what it has."""
    tmp_path.chmod(0o755)
    with (
        running_server(tmp_path, blank_dsn, environment=environments["new"]) as (_, api),
        start_worker(tmp_path, api, name="old", tasks=TASKS, environment=environments["old"]) as process,
    ):
        api.await_workers(1)
        load = Load(tmp_path / "witness", tmp_path / "gate", [api])
        held = api.create(
            {
                "task": {"kind": "python", "function": "version.hold"},
                "parameters": {"witness": str(load.witness), "group": "held", "gate": str(load.gate)},
            }
        )
        until(lambda: (run := api.run_of(held)) and run["status"] == "running", "the held run")
        [shown] = api.call("GET", "/v1/workers")["items"]
        api.call("POST", f"/v1/workers/{shown['workerId']}/drain", expect=202)
        later = api.create({"task": {"kind": "shell", "command": "echo later"}})
        load.gate.touch()
        run = until(lambda: api.ended_run_of(held), "the held run to end")
        assert (run["status"], run["attempt"]) == ("succeeded", 1)
        [shown] = api.call("GET", "/v1/workers")["items"]
        assert (shown["status"], shown["running"], process.popen.poll()) == ("draining", 0, None)
        run = api.run_of(later)
        assert run is not None
        assert run["status"] == "queued"
        with start_worker(tmp_path, api, name="new", environment=environments["new"]):
            run = until(lambda: api.ended_run_of(later), "the later run to end")
            assert (run["status"], run["executorId"]) == ("succeeded", "new")
        assert process.stop() == 0, process.output


@pytest.mark.parametrize("version", ["old", "new"])
def test_each_version_is_what_it_is_called(environments: Environments, version: str) -> None:
    code = "import timeball, pathlib; print(pathlib.Path(timeball.__file__).parent.joinpath('server').is_dir())"
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environments[version], capture_output=True, check=True, text=True
    )
    assert printed.stdout.strip() == str(version == "new"), "the earlier commit has its loops in another folder"


def test_a_missing_commit_is_a_skip_that_only_a_whole_clone_in_ci_may_not_take() -> None:
    error = LookupError()
    assert absence(error, is_shallow=True, in_ci=True).startswith("the clone is shallow")
    assert absence(error, is_shallow=False, in_ci=True).startswith("failed: there is no commit")
    assert absence(error, is_shallow=False, in_ci=False).startswith("there is no commit")
    assert absence(FileNotFoundError(), is_shallow=False, in_ci=True).startswith("failed: git is not installed")
