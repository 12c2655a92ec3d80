"""The text of metrics is in the format of Prometheus, as its own library reads it."""

from prometheus_client.parser import text_string_to_metric_families

from timeball.ports.metrics import Histogram
from timeball.telemetry.exposition import build_info, counters, gauge, histograms, render


def test_histograms_are_cumulative_and_end_with_the_count() -> None:
    found = Histogram((0.5, 1.0))
    for value in (0.1, 0.2, 0.7, 5):
        found.observe(value)
    text = render([histograms("delay_seconds", "Delays.", ("part",), {("queue",): found})]).decode()
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.type) == ("timeball_delay_seconds", "histogram")
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
    assert buckets == {"0.5": 2, "1.0": 3, "+Inf": 4}
    assert {each.name[len(family.name) :]: each.value for each in family.samples if "le" not in each.labels} == {
        "_count": 4,
        "_sum": 6.0,
    }


def test_label_values_are_escaped() -> None:
    text = render([counters("runs", "Runs.", ("outcome",), {('a"b\n\\',): 2}), gauge("up", "Up.", 1)]).decode()
    runs, up = text_string_to_metric_families(text)
    assert [(each.name, each.labels, each.value) for each in runs.samples] == [
        ("timeball_runs_total", {"outcome": 'a"b\n\\'}, 2)
    ]
    assert up.samples[0].value == 1


def test_the_build_is_a_label() -> None:
    (family,) = text_string_to_metric_families(render([build_info("server", "1.2.3", "sqlite")]).decode())
    (sample,) = family.samples
    assert sample.value == 1
    assert {"role": "server", "version": "1.2.3", "store": "sqlite"}.items() <= sample.labels.items()
