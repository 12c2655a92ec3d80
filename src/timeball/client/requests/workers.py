"""Requests about workers, and about the clock of the store."""

from __future__ import annotations

from timeball.client.models.workers import StoreClock, Workers
from timeball.client.requests.request import Request, get, post


def workers() -> Request[Workers]:
    return get("/v1/workers", Workers)


def clock() -> Request[StoreClock]:
    return get("/v1/clock", StoreClock)


def accept_clock() -> Request[StoreClock]:
    return post("/v1/clock:accept", StoreClock, repeatable=True)
