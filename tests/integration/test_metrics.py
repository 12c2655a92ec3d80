"""`/metrics` of a server and of a worker: what is counted, who may read it, and what a scrape costs."""

import asyncio
import contextlib
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import ADMIN, OTHER, WORKER, Api, FakeWorker, beside, running_api
from timeball import system
from timeball.api import auth
from timeball.bootstrap.worker import offer_metrics
from timeball.domain.errors import Conflict, Unavailable
from timeball.ports.worker_protocol import RegisterWorker
from timeball.server.metrics import ServerMetricsPage
from timeball.worker.worker import Worker

SHELL = {"task": {"kind": "shell", "command": "true"}}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


async def scraped(api: Api) -> Samples:
    answer = await api("GET", "/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return samples(answer.text)


async def ended_jobs(api: Api, count: int) -> list[str]:
    """Submit jobs in one request, and let a worker end all of them. Return their ids."""
    worker = FakeWorker(api)
    await worker.hello(slots=count)
    created = (await api("POST", "/v1/jobs:batch", json=[SHELL] * count)).json()
    for _ in range(count):
        await worker.succeed(await worker.take())
    return [each["jobId"] for each in created["items"]]


async def count_ends(api: Api) -> None:
    """Let the loop that counts the ends of runs do so now."""
    await next(each for each in api.server.loops if each.name == "statistics_writer").stop()


async def test_what_happens_to_jobs_is_counted_per_batch(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        job_ids = await ended_jobs(api, 7)
        await count_ends(api)
        found = await scraped(api)
        counts = {name: value for (name, labels), value in found.items() if not labels}
        assert (counts["timeball_submits_total"], counts["timeball_claims_total"]) == (7, 7)
        assert counts["timeball_settles_total"] == 7
        assert found["timeball_batch_size_count", (("operation", "submit"),)] == 1
        assert found["timeball_runs_total", (("outcome", "succeeded"),)] == 7
        for part in ("scheduler", "blocked", "queue", "worker"):
            assert found["timeball_run_start_delay_seconds_count", (("part", part),)] == 7
        text = (await api("GET", "/metrics")).text
        assert not [job_id for job_id in job_ids if job_id in text], "a metric for each job"
        assert not re.search(r'"[jrwk]_[0-9a-z]{20}', text), "no label has an id"


async def test_every_name_has_the_prefix_and_a_base_unit(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        families = list(text_string_to_metric_families((await api("GET", "/metrics")).text))
    assert len(families) > 15
    for family in families:
        assert family.name.startswith("timeball_")
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|millis|micros|minutes|hours|kb|mb)(_|$)", family.name)


@pytest.mark.parametrize(("key", "status"), [(None, 401), (OTHER, 403), (WORKER, 403), (ADMIN, 200)])
async def test_metrics_need_a_key_with_the_permission(tmp_path: Path, key: str | None, status: int) -> None:
    async with running_api(tmp_path) as api:
        assert (await api("GET", "/metrics", key)).status_code == status


async def test_a_key_of_the_scope_reads_metrics_and_nothing_else(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        body = {"role": "system", "scopes": ["metrics"], "name": "prometheus"}
        key = (await api("POST", "/v1/api-keys", json=body)).json()["key"]
        assert (await api("GET", "/metrics", key)).status_code == 200
        assert (await api("GET", "/v1/jobs", key)).status_code == 403
        assert (await api("POST", "/v1/jobs", key, json=SHELL)).status_code == 403
        assert (await api("GET", "/v1/tenants", key)).status_code == 403


async def test_open_metrics_need_no_key_and_open_nothing_else(tmp_path: Path) -> None:
    async with running_api(tmp_path, open_metrics=True) as api:
        assert (await api("GET", "/metrics", None)).status_code == 200
        assert (await api("GET", "/v1/jobs", None)).status_code == 401


async def test_tenants_are_a_label_only_if_a_setting_says_so(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        await ended_jobs(api, 1)
        await count_ends(api)
        assert "tenant=" not in (await api("GET", "/metrics")).text
        by_tenant = beside(api, read_metrics=ServerMetricsPage(api.server, "", by_tenant=True))
        found = await scraped(by_tenant)
        assert found["timeball_runs_total", (("outcome", "succeeded"), ("tenant", "default"))] == 1
        await by_tenant.client.aclose()


async def test_scrapes_share_one_reading_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_api(tmp_path) as api:
        readings = 0
        store = api.server.context.store
        read = store.fleet_state

        async def counted() -> Any:
            nonlocal readings
            readings += 1
            return await read()

        monkeypatch.setattr(store, "fleet_state", counted)
        await asyncio.gather(*(scraped(api) for _ in range(20)))
        assert readings == 1


async def test_metrics_are_there_while_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a key, which can then not be looked up: one that was valid within the last day."""

    async def away(*_: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(auth, "REMEMBER", 1)
    async with running_api(tmp_path) as api:
        assert (await api("GET", "/metrics")).status_code == 200
        monkeypatch.setattr("timeball.server.metrics.FLEET_INTERVAL", 0)
        for name in ("fleet_state", "key_by_digest"):
            monkeypatch.setattr(api.server.context.store, name, away)
        found = await scraped(api)
        assert found["timeball_store_up", ()] == 0
        assert not [name for name, _ in found if name.startswith(("timeball_queue", "timeball_workers"))]
        assert (await api("GET", "/v1/jobs")).status_code == 503, "other permissions need the store"
        assert (await api("GET", "/metrics", "a-key-that-was-never-valid")).status_code == 503


async def test_a_worker_offers_its_slots_where_a_setting_asks_for_it() -> None:
    unused: Any = None
    worker = Worker(unused, {}, system.SystemClock(), RegisterWorker(name="w", slots=4), rng=system.rng())
    async with contextlib.AsyncExitStack() as stack:
        port = offer_metrics(worker, "127.0.0.1", 0, stack)
        url = f"http://127.0.0.1:{port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read().decode())
        found = samples(text)
        assert found["timeball_worker_slots", (("pool", "all"),)] == 4
        assert found["timeball_worker_slots_used", (("pool", "all"),)] == 0
        assert found["timeball_worker_connected", ()] == 0
        with pytest.raises(Conflict, match=f"port {port}"):
            offer_metrics(worker, "127.0.0.1", port, stack)
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(urllib.request.urlopen, url, timeout=10)
