"""Python functions that a worker can run: the decorator `@timeball.task`, and the `Context` for such functions.

@timeball.task("reports.nightly")
async def nightly(days: int, ctx: timeball.Context) -> dict[str, int]:
    ctx.progress(0.5, "half way")
    return {"days": days}
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, ParamSpec, TypeVar, overload

from timeball.domain.task.task import Python

Mode = Literal["async", "thread", "process"]
MODES: Final = ("async", "thread", "process")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The attempt that a function executes. A function with a parameter `ctx` receives it, to report progress and
    output, and to check whether it is to stop.
    """

    job_id: str
    run_id: str
    attempt: int
    """The number of the attempt; 1 for the first."""
    fencing_token: int
    """A number that grows with every attempt of a store. Pass it to systems that can refuse a request with an older
    token."""
    fire_time: datetime
    """The fire that this run is for, in UTC."""
    parameters: dict[str, Any]
    say_progress: Callable[[float, str], None] = field(repr=False)
    say_log: Callable[[str], None] = field(repr=False)
    ask_cancelled: Callable[[], bool] = field(repr=False)

    def progress(self, fraction: float, note: str = "") -> None:
        """Report the progress of the attempt: a fraction from 0 to 1, and a note for people."""
        self.say_progress(fraction, note)

    def log(self, text: str) -> None:
        """Append a line to the output of the run."""
        self.say_log(text)

    @property
    def cancelled(self) -> bool:
        """True if the attempt is to stop: it was cancelled, its timeout has passed, or the worker stops. A function
        that runs in a thread should check this often.
        """
        return self.ask_cancelled()


@dataclass(frozen=True, slots=True)
class Function:
    """A registered function."""

    name: str
    call: Callable[..., Any]
    mode: Mode
    wants_context: bool
    fresh: bool = False
    """True if each run gets an interpreter of its own."""


NOOP: Final = "timeball.noop"


async def noop() -> None:
    """Do nothing. Every worker has this function, so that `timeball bench` can measure runs that do no work."""


class Registry:
    """The registered functions by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def add(
        self, call: Callable[..., Any], name: str | None = None, mode: Mode | None = None, *, fresh: bool = False
    ) -> Function:
        name = name if name is not None else getattr(call, "__name__", "")
        Python(function=name)
        is_async = inspect.iscoroutinefunction(call)
        mode = mode or ("async" if is_async else "thread")
        if mode not in MODES:
            raise ValueError(f"task {name!r}: {mode!r} is not a mode; use one of {', '.join(MODES)}")
        if (mode == "async") > is_async:
            raise ValueError(f"task {name!r}: only an async function can run in mode 'async'")
        if mode == "thread" and is_async:
            raise ValueError(f"task {name!r}: an async function runs in mode 'async' or 'process'")
        if fresh and mode != "process":
            raise ValueError(f"task {name!r}: only a function in mode 'process' can have fresh=True")
        known = self._functions.get(name)
        if known is not None and _origin(known.call) != _origin(call):
            raise ValueError(f"two tasks are named {name!r}: {_origin(known.call)} and {_origin(call)}")
        function = Function(name, call, mode, "ctx" in inspect.signature(call).parameters, fresh)
        self._functions[name] = function
        return function

    def get(self, name: str) -> Function | None:
        return self._functions.get(name)

    @property
    def modes(self) -> dict[str, Mode]:
        return {function.name: function.mode for function in self._functions.values()}

    @property
    def names(self) -> list[str]:
        return sorted(self._functions)


REGISTRY: Final = Registry()
"""The functions that `@timeball.task` registered in this process. A worker offers them to its servers."""


@overload
def task(name: Callable[P, R]) -> Callable[P, R]: ...


@overload
def task(
    name: str | None = None, *, mode: Mode | None = None, fresh: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def task(name: Any = None, *, mode: Mode | None = None, fresh: bool = False) -> Any:
    """Register a function under a name; without one, under its own name. The function itself does not change.

    `mode` is where the function runs. `async`, the default for async functions: in the event loop of the worker.
    `thread`, the default for other functions: in a thread, which stops only if the function checks `ctx.cancelled`.
    `process`: in a child process, for work that must not block the worker or that must be killable. Such a process
    executes many runs of the functions of its module, one after the other, so global variables of the module keep their
    values. With `fresh=True` each run starts an interpreter of its own, which takes longer.
    """
    if callable(name):
        REGISTRY.add(name)
        return name

    def register(call: Callable[P, R]) -> Callable[P, R]:
        REGISTRY.add(call, name, mode, fresh=fresh)
        return call

    return register


def load(module: str) -> list[str]:
    """Import a module, also from the current folder, and return the names of the functions that it registered."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    before = set(REGISTRY.names)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(f"there is no module {module!r} in {folder} or on the Python path") from None
        raise
    return [name for name in REGISTRY.names if name not in before]


def _origin(call: Callable[..., Any]) -> str:
    return f"{call.__module__}.{getattr(call, '__qualname__', call)}"
