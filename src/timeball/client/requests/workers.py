"""Requests about workers, and about the clock of the store."""

from __future__ import annotations

from timeball.client.models.workers import StoreClock, Workers
from timeball.client.requests.request import ApiRequest, get, post


def workers() -> ApiRequest[Workers]:
    return get("/v1/workers", Workers)


def clock() -> ApiRequest[StoreClock]:
    return get("/v1/clock", StoreClock)


def accept_clock() -> ApiRequest[StoreClock]:
    return post("/v1/clock:accept", StoreClock, repeatable=True)
