"""Requests about workers, and about the clock of the store."""

from __future__ import annotations

from timeball.client.models.workers import DrainingWorker, StoreClock, Workers
from timeball.client.requests.request import ApiRequest, get, post


def workers(*, gone: bool = False) -> ApiRequest[Workers]:
    return get("/v1/workers", Workers, include="gone" if gone else None)


def drain_worker(worker_id: str) -> ApiRequest[DrainingWorker]:
    return post(f"/v1/workers/{worker_id}/drain", DrainingWorker, repeatable=True)


def clock() -> ApiRequest[StoreClock]:
    return get("/v1/clock", StoreClock)


def accept_clock() -> ApiRequest[StoreClock]:
    return post("/v1/clock:accept", StoreClock, repeatable=True)
