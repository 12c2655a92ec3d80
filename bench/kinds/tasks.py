"""The functions of `bench kinds`. Those named `start` return when they were called, in nanoseconds."""

import time

import timeball


@timeball.task("kinds.async")
async def nothing_async() -> None:
    """Do nothing: the benchmark measures everything around it."""


@timeball.task("kinds.thread")
def nothing_thread() -> None:
    """Do nothing, in a thread."""


@timeball.task("kinds.process", mode="process")
def nothing_process() -> None:
    """Do nothing, in a child process."""


@timeball.task("kinds.async.start")
async def start_async() -> int:
    return time.time_ns()


@timeball.task("kinds.thread.start")
def start_thread() -> int:
    return time.time_ns()


@timeball.task("kinds.process.start", mode="process")
def start_process() -> int:
    return time.time_ns()
