"""Configures logs on standard error: text or JSON. The normal course of a run writes no log line.

A traceback contains files, lines and functions, never the values of variables, because a key may be among them.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Any, Literal, TextIO, cast

import structlog


def configure(level: str, style: str, process: str | None = None) -> None:
    """Configure the logs of this process. `process` is added to each line; it is None unless the command starts several
    processes, each with a name."""
    shared: list[structlog.typing.Processor] = [
        *([] if process is None else [_naming(process)]),
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    as_json: list[structlog.typing.Processor] = [
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ]
    as_text: list[structlog.typing.Processor] = [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    ]
    structlog.configure(
        processors=shared + (as_json if style == "json" else as_text),
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard library; only their warnings and errors are shown.
    handler = StandardError()
    handler.setFormatter(_standard_formatter(shared, as_json if style == "json" else [_plain_text()]))
    logging.basicConfig(handlers=[handler], level=max(_number(level), logging.WARNING), force=True)


def _naming(process: str) -> structlog.typing.Processor:
    def name(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("process", process)
        return event

    return name


def _standard_formatter(
    shared: list[structlog.typing.Processor], rendering: list[structlog.typing.Processor]
) -> logging.Formatter:
    """Give lines of the standard library the same fields and the same form as all other lines, and the name of their
    logger."""
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
    )


def _plain_text() -> structlog.typing.Processor:
    # Never in colour: the line may become output of a run, which is stored.
    return structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


class Unfailing:
    """A stream whose writes never raise: if the disk is full or the reader is gone, log lines are lost, but the code
    that logs continues.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class StandardError(logging.Handler):
    """A log handler that writes to the current `sys.stderr`. A worker replaces `sys.stderr`, so that log lines of the
    function of a job become output of its run."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def _number(level: str) -> int:
    names: dict[str, Literal[10, 20, 30, 40]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
    return names[level.lower()]
