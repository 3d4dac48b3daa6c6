"""The server's log on stderr, as text lines or as JSON objects. Each line names its request, session and turn as far as
they are known, and contains no known secret."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from aish.config.schema.config import LogConfig
from aish.frontends.terminal import visible

# A traceback or a backend's message may be long, and a JSON line that a collector cuts is invalid.
_MAX_CHARS = 16_000


class LogContext(msgspec.Struct):
    """The request that a task works for."""

    request: str = ""
    session: str = ""
    turn: str = ""


_context: ContextVar[LogContext | None] = ContextVar("aish_log_where", default=None)


def log_request_id(request: str) -> None:
    _context.set(LogContext(request))


def log_turn_id(session: str, turn: str) -> None:
    """Adds the session and the turn to the log lines of the current request."""
    if (context := _context.get()) is not None:
        context.session, context.turn = session, turn


def log_to(config: LogConfig, redact: Callable[[str], str], stream: TextIO | None = None) -> None:
    """Sends the log to stderr or `stream` from now on, and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(redact) if config.format == "json" else TextLines(redact))
    logging.basicConfig(handlers=[handler], level=config.level.upper(), force=True)


class TextLines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in {**_ids(), **_fields(record)}.items())
        message = " ".join(record.getMessage().splitlines())
        line = visible(f"{record.levelname} {record.name}: {message}{' ' if ids else ''}{ids}")
        trouble = _trouble(self, record)
        return self._redact(f"{line}\n{trouble}" if trouble else line)[:_MAX_CHARS]


class JsonLines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage())[:_MAX_CHARS],
            **_ids(),
            **_fields(record),
        }
        if trouble := _trouble(self, record):
            line["error"] = self._redact(trouble)[:_MAX_CHARS]
        return msgspec.json.encode(line).decode()


def _ids() -> dict[str, str]:
    context = _context.get()
    given: dict[str, str] = msgspec.structs.asdict(context) if context is not None else {}
    return {name: value for name, value in given.items() if value}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The figures of a request, given as `extra={"fields": …}`."""
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
