"""The documented fields of logs are those of the code, of `deploy/logs`, and of lines of real processes."""

import json
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import log_fields_reference as documented
from tests.architecture.source import ROOT, only_listed
from tests.support.processes import running_up

DEPLOY = ROOT / "deploy" / "logs"
TYPES: dict[str, Any] = {
    "keyword": (str, list),
    "text": (str, int, list),
    "long": int,
    "double": (int, float),
    "date": str,
    "object": (list, dict),
}
BY_TELEMETRY = {
    "logger": "telemetry/logging.py adds it",
    "exception": "telemetry/logging.py makes it of exc_info",
}


@pytest.mark.xdist_group("source")
def test_the_code_logs_what_is_documented() -> None:
    found = documented.logged()
    assert {name: where for name, where in found.items() if name not in documented.FIELDS} == {}
    only_listed(documented.SOMETIMES.keys() - found.keys(), BY_TELEMETRY)


def test_the_mapping_has_every_field_with_its_type() -> None:
    template = json.loads((DEPLOY / "index-template.json").read_text("utf-8"))
    mapped = template["template"]["mappings"]["properties"]
    assert mapped.pop("@timestamp") == {"type": "alias", "path": "timestamp"}
    assert {name: each["type"] for name, each in mapped.items()} == {
        name: each.type for name, each in documented.FIELDS.items()
    }


def test_the_pipeline_names_fields_that_exist_and_labels_with_few_values() -> None:
    pipeline = yaml.safe_load((DEPLOY / "vector.yaml").read_text("utf-8"))
    named = {*pipeline["sources"], *pipeline["transforms"]}
    for each in (*pipeline["transforms"].values(), *pipeline["sinks"].values()):
        assert set(each["inputs"]) <= named
    labels = pipeline["sinks"]["loki"]["labels"]
    assert labels.pop("application") == "timeball"
    assert labels == {name: f"{{{{ {name} }}}}" for name in documented.LOKI_LABELS}
    assert all(documented.FIELDS[name].type == "keyword" for name in labels)
    index = pipeline["sinks"]["elasticsearch"]["bulk"]["index"]
    patterns = json.loads((DEPLOY / "index-template.json").read_text("utf-8"))["index_patterns"]
    assert [index.replace("%Y.%m.%d", "*")] == patterns


def test_lines_of_a_real_process_fit_the_mapping(tmp_path: Path) -> None:
    flags = ("--log-format", "json", "--log-level", "debug", "--processes", "2")
    with running_up(tmp_path, None, *flags) as (process, api):
        api.await_workers(2)
        process.popen.send_signal(signal.SIGTERM)
        process.popen.wait(60)
        lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    assert len(lines) >= 3
    for line in lines:
        assert line.keys() >= documented.ALWAYS.keys()
        assert line.keys() <= documented.FIELDS.keys(), line
        for name, value in line.items():
            assert value is None or isinstance(value, TYPES[documented.FIELDS[name].type]), (name, value)
        assert datetime.fromisoformat(line["timestamp"]).utcoffset() is not None
