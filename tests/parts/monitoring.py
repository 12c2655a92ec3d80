"""A real Prometheus with the shipped alert rules, and a real Alertmanager that sends to a receiver of the test."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx

from tests.architecture.source import ROOT
from tests.parts.catalog import require
from tests.support.processes import free_port, until

RULES = ROOT / "deploy/prometheus/alerts.yml"


class Receiver:
    """Receives the webhooks of Alertmanager."""

    def __init__(self) -> None:
        self.fired: list[dict[str, str]] = []
        """The labels of alerts that fired, in the order in which they arrived."""
        fired = self.fired

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                fired.extend(each["labels"] for each in body["alerts"] if each["status"] == "firing")
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def names(self) -> set[str]:
        return {each["alertname"] for each in self.fired}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Prometheus:
    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._http.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def is_ready(self) -> bool:
        return self._http.get("/-/ready").status_code == 200

    def is_up(self, targets: int) -> bool:
        active = self.get("targets")["activeTargets"]
        return len(active) == targets and all(each["health"] == "up" for each in active)

    def close(self) -> None:
        self._http.close()


def scaled_rules() -> str:
    """Return the shipped rules with times that suit a test: minutes and hours are seconds."""
    rules = RULES.read_text("utf-8")
    rules = re.sub(r"for: \d+m", "for: 1s", rules)
    return re.sub(r"\[(\d+)[mh]\]", r"[30s]", rules)


@contextlib.contextmanager
def monitoring(
    folder: Path, key: str, servers: Sequence[str], workers: Sequence[str]
) -> Iterator[tuple[Prometheus, Receiver]]:
    """Start Prometheus and Alertmanager. `servers` and `workers` are addresses as `127.0.0.1:1300`."""
    folder.mkdir()
    port, alert_port = free_port(), free_port()
    receiver = Receiver()
    (folder / "key").write_text(key, "ascii")
    (folder / "alerts.yml").write_text(scaled_rules(), "utf-8")
    scrape: list[dict[str, Any]] = [
        {
            "job_name": "timeball",
            "authorization": {"credentials_file": str(folder / "key")},
            "static_configs": [{"targets": list(servers)}],
        },
        {"job_name": "timeball-workers", "static_configs": [{"targets": list(workers)}]},
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "alerts.yml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alert_port}"]}]}]},
        "scrape_configs": scrape,
    }
    grouping = {"group_by": ["..."], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
    alerting = {
        "route": {"receiver": "test", **grouping},
        "receivers": [{"name": "test", "webhook_configs": [{"url": receiver.url}]}],
    }
    for name, content in (("prometheus.yml", config), ("alertmanager.yml", alerting)):
        (folder / name).write_text(json.dumps(content), "utf-8")  # JSON is YAML
    commands = [
        [
            str(require("prometheus")),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        [
            str(require("prometheus-alertmanager")),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{alert_port}",
            "--cluster.listen-address=",
        ],
    ]
    with contextlib.ExitStack() as stack:
        stack.callback(receiver.close)
        log = stack.enter_context((folder / "log").open("ab"))
        for command in commands:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        stack.callback(prometheus.close)
        until(prometheus.is_ready, "Prometheus")
        until(lambda: prometheus.is_up(len(servers) + len(workers)), "all targets of Prometheus")
        yield prometheus, receiver
