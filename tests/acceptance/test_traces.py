"""One trace shows the way of a job from its submit to its end, across processes, as OTLP delivers it.

Two houses: one process on SQLite, and a server with a separate worker on PostgreSQL."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.otlp_receiver import OtlpReceiver, ReceivedSpan
from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, running_server, running_up, start_worker, until
from timeball.domain.run import trace

SPAN_OF_CLIENT = "b7ad6b7169203331"
STEPS = ["submit", "fire", "claim", "execute", "settle"]


class House(NamedTuple):
    api: Api
    receiver: OtlpReceiver


@pytest.fixture(scope="module", params=["up on SQLite", "server and worker on PostgreSQL"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with OtlpReceiver() as receiver:
        if "SQLite" in request.param:
            environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
            with running_up(folder, environment=environment) as (_, api):
                api.await_workers(1)
                yield House(api, receiver)
            return
        postgres: PostgresCluster = request.getfixturevalue("postgres")
        dsn = postgres.create_database()
        flags = ("--otlp-endpoint", receiver.url)
        with (
            running_server(folder, dsn, None, *flags) as (_, api),
            start_worker(folder, api, name="alice", flags=flags),
        ):
            api.await_workers(1)
            yield House(api, receiver)
        postgres.drop_database(dsn)


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[str, list[str]]]:
    """The URL of a target for HTTP jobs, and the headers `traceparent` that it got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.headers["traceparent"])
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", got
        server.shutdown()
        thread.join()


def client(number: int, *, sampled: bool = True) -> trace.TraceContext:
    """Return the context of a client that is in a trace of its own."""
    return trace.TraceContext(f"{number:032x}", SPAN_OF_CLIENT, sampled)


def submitted(house: House, context: trace.TraceContext, task: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Submit a job in the trace of a client. Return its run when it has ended."""
    job_id = house.api.create({"task": task, **rest}, traceparent=context.render())
    return until(lambda: house.api.ended_run_of(job_id), "the end of the run")


def received(house: House, trace_id: str, count: int) -> list[ReceivedSpan]:
    """Return the spans of a trace as soon as `count` have arrived, parents first."""

    def look() -> list[ReceivedSpan] | None:
        spans = house.receiver.trace(trace_id)
        return spans if len(spans) >= count else None

    return until(look, f"{count} spans of a trace")


def assert_chain(spans: list[ReceivedSpan], parent: str) -> None:
    """Each step is the child of the step before it."""
    assert [span.name for span in spans] == STEPS
    assert [span.parent for span in spans] == [parent, *(span.id for span in spans[:-1])]
    assert all(span.start <= span.end and span.service == "timeball" for span in spans)
    assert spans[0].start <= spans[2].start <= spans[4].end, "of the clock of one process"


def test_the_trace_of_a_client_continues_through_a_shell_job_to_its_end(house: House) -> None:
    run = submitted(house, client(1), {"kind": "shell", "command": "echo $TRACEPARENT"}, name="nightly")
    spans = received(house, client(1).trace_id, 5)
    assert_chain(spans, SPAN_OF_CLIENT)
    submit, fire, _, execute, settle = spans
    assert house.api.call("GET", f"/v1/runs/{run['runId']}/logs").split()[-1] == f"00-{execute.trace}-{execute.id}-01"
    assert submit.attributes["timeball.job.name"] == "nightly"
    assert fire.attributes["timeball.tenant"] == "default"
    assert {span.attributes.get("timeball.run.id", run["runId"]) for span in spans} == {run["runId"]}
    assert (execute.attributes["timeball.kind"], settle.attributes["timeball.outcome"]) == ("shell", "succeeded")


def test_the_target_of_an_http_job_gets_the_span_of_the_execution(house: House, target: tuple[str, list[str]]) -> None:
    url, got = target
    submitted(house, client(2), {"kind": "http", "url": url})
    spans = received(house, client(2).trace_id, 5)
    assert_chain(spans, SPAN_OF_CLIENT)
    assert got[-1] == f"00-{spans[3].trace}-{spans[3].id}-01"


def test_all_tasks_of_a_workflow_are_in_its_trace(house: House) -> None:
    tasks = [
        {"name": "first", "task": {"kind": "shell", "command": "true"}},
        {"name": "second", "task": {"kind": "shell", "command": "true"}, "needs": ["first"]},
    ]
    submitted(house, client(3), {"kind": "workflow", "tasks": tasks})
    spans = received(house, client(3).trace_id, 1 + 2 * 4)
    runs = {span.attributes["timeball.run.id"] for span in spans[1:]}
    assert len(runs) == 2
    for run in runs:
        assert_chain([spans[0], *(s for s in spans if s.attributes.get("timeball.run.id") == run)], SPAN_OF_CLIENT)


def test_tasks_of_a_workflow_that_repeats_share_the_trace_of_their_workflow_run(house: House) -> None:
    tasks = [{"name": name, "task": {"kind": "shell", "command": "true"}} for name in ("first", "second")]
    job_id = house.api.create(
        {"task": {"kind": "workflow", "tasks": tasks}, "schedule": {"type": "interval", "expression": "1h"}}
    )
    house.api.call("POST", f"/v1/jobs/{job_id}/run", expect=(200, 201, 202))
    runs = house.api.call("GET", f"/v1/jobs/{job_id}/runs")["items"]
    (run,) = [run for run in runs if run["origin"] != "task"]
    spans = received(house, trace.trace_id_of(run["runId"]), 2 * 4)
    assert sorted(span.name for span in spans if not span.parent) == ["fire", "fire"]


def test_each_attempt_has_its_spans_and_a_failure_says_why(house: House) -> None:
    retry = {"maxRetries": 1, "backoff": "fixed", "base": "10ms"}
    submitted(house, client(4), {"kind": "shell", "command": "exit 3"}, retry=retry)
    spans = received(house, client(4).trace_id, 1 + 2 * 4)
    failed = [(span.name, span.attributes["timeball.attempt"]) for span in spans if "exit code 3" in span.error]
    assert sorted(failed) == [("execute", 1), ("execute", 2), ("settle", 1), ("settle", 2)]


def test_a_trace_that_its_client_does_not_sample_is_handed_on_and_not_sent(house: House) -> None:
    run = submitted(house, client(5, sampled=False), {"kind": "shell", "command": "echo $TRACEPARENT"})
    assert house.api.call("GET", f"/v1/runs/{run['runId']}/logs").split()[-1] == client(5, sampled=False).render()
    submitted(house, client(6), {"kind": "shell", "command": "true"})
    received(house, client(6).trace_id, 5)
    assert client(5).trace_id not in house.receiver.traces


def test_jobs_of_a_batch_share_requests_of_the_export(house: House) -> None:
    jobs = [{"task": {"kind": "python", "function": "timeball.noop"}}] * 40
    house.api.call("POST", "/v1/jobs:batch", json=jobs, headers={"traceparent": client(7).render()})
    spans = received(house, client(7).trace_id, 5 * 40)
    assert {name: [s.name for s in spans].count(name) for name in STEPS} == dict.fromkeys(STEPS, 40)
    assert max(house.receiver.batches) > 40


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    modules = "import sys; from timeball import cli, bootstrap; from timeball.bootstrap import server, worker"
    code = f"{modules}; sys.exit(any('opentelemetry' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0
