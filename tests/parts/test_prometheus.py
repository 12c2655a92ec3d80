"""A real Prometheus evaluates the shipped rules and dashboard over real servers and workers, and a real Alertmanager
reports what breaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.architecture.source import ROOT
from tests.parts.catalog import require
from tests.parts.monitoring import RULES, Prometheus, Receiver, monitoring
from tests.support.postgres import PostgresServer
from tests.support.processes import Api, free_port, running_server, start_worker, until

DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/timeball.json").read_text("utf-8"))
ALERT_SECONDS = 60
"""Maximum number of seconds until an alert arrives. A lease takes 15 s to lapse, a loop 10 s to count as failed."""


def dashboard_queries() -> list[str]:
    return [
        target["expr"].replace("$__rate_interval", "30s").replace("$job", ".+")
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


def submit(api: Api, command: str, count: int) -> None:
    jobs = [{"task": {"kind": "shell", "command": command}, "retry": {"maxRetries": 0}}] * count
    api.call("POST", "/v1/jobs:batch", json=jobs)


def await_alert(receiver: Receiver, name: str, **labels: str) -> None:
    def look() -> bool:
        return any({"alertname": name, **labels}.items() <= each.items() for each in receiver.fired)

    until(look, f"the alert {name} {labels}", ALERT_SECONDS)


def test_the_rules_are_valid_and_fire_on_what_they_describe(tmp_path: Path) -> None:
    promtool = require("promtool")
    subprocess.run([promtool, "check", "rules", RULES], check=True, capture_output=True)
    config = ["check", "config", "--syntax-only", RULES.with_name("prometheus.yml")]
    subprocess.run([promtool, *config], check=True, capture_output=True)
    for file in (RULES, Path(__file__).with_name("alerts_test.yml")):
        shutil.copy(file, tmp_path)
    tested = subprocess.run(
        [promtool, "test", "rules", tmp_path / "alerts_test.yml"], check=False, capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parts
@pytest.mark.timeout(400)
def test_prometheus_sees_the_fleet_and_alerts_arrive(tmp_path: Path, private_postgres: PostgresServer) -> None:
    for part in ("prometheus", "prometheus-alertmanager"):
        require(part)
    dsn = private_postgres.create_database()
    folders = [tmp_path / name for name in ("s0", "s1", "w0", "w1")]
    for folder in folders:
        folder.mkdir()
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as stack:
        apis = [stack.enter_context(running_server(tmp_path / f"s{at}", dsn))[1] for at in range(2)]
        workers = [
            stack.enter_context(
                start_worker(tmp_path / f"w{at}", *apis, name=f"w{at}", flags=["--metrics-listen", str(port)])
            )
            for at, port in enumerate(ports)
        ]
        apis[0].await_workers(2)
        scope = {"role": "system", "scopes": ["metrics"], "name": "prometheus"}
        key = apis[0].call("POST", "/v1/api-keys", expect=201, json=scope)["key"]
        submit(apis[0], "true", 5)
        addresses = [api.url.removeprefix("http://") for api in apis]
        prometheus, receiver = stack.enter_context(
            monitoring(tmp_path / "monitoring", key, addresses, [f"127.0.0.1:{port}" for port in ports])
        )
        dashboard_has_data(prometheus, apis[1])
        rules_evaluate(prometheus)
        broken = {
            "TimeballDeadLetters",
            "TimeballLoopStalled",
            "TimeballNoWorkers",
            "TimeballStoreDown",
            "TimeballServerDown",
        }
        assert not receiver.names() & broken, "a healthy fleet"

        submit(apis[0], "false", 12)
        await_alert(receiver, "TimeballDeadLetters")
        with frozen_gates(dsn):
            await_alert(receiver, "TimeballLoopStalled", loop="gate_opener")
        for worker in workers:
            worker.kill()
        await_alert(receiver, "TimeballNoWorkers")
        private_postgres.stop("immediate")
        await_alert(receiver, "TimeballStoreDown")
        rules_evaluate(prometheus)


def dashboard_has_data(prometheus: Prometheus, api: Api) -> None:
    """Every query gives data while jobs run; those about SQLite evaluate without an error."""
    for query in dashboard_queries():

        def look(query: str = query) -> bool:
            submit(api, "true", 2)
            return bool(prometheus.query(query)) or "sqlite" in query

        until(look, f"data of {query}")


def rules_evaluate(prometheus: Prometheus) -> None:
    def look() -> bool:
        rules = prometheus.get("rules")["groups"][0]["rules"]
        assert len(rules) > 10
        assert not [rule for rule in rules if rule["health"] == "err"], rules
        return all(rule["health"] == "ok" for rule in rules)

    until(look, "an evaluation of all rules")


@contextlib.contextmanager
def frozen_gates(dsn: str) -> Iterator[None]:
    """Hold a lock for which the gate opener of every server waits."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(dsn))
        runner.run(connection.execute("BEGIN; LOCK TABLE gates IN ACCESS EXCLUSIVE MODE"))
        yield
        runner.run(connection.close())
