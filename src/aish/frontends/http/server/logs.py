"""The server's log on stderr: lines to read, or one JSON object on each. Every line names the request, the session and
the turn it belongs to, as far as they are known, and holds no known secret."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from aish.config.schema.telemetry import LogConfig
from aish.frontends.terminal import visible

# A traceback or a message of a backend may be long; a line that a collector cuts is no JSON any more.
_MAX_CHARS = 16_000


class Where(msgspec.Struct):
    """What a task works for."""

    request: str = ""
    session: str = ""
    turn: str = ""


_where: ContextVar[Where | None] = ContextVar("aish_log_where", default=None)


def note_request(request: str) -> None:
    _where.set(Where(request))


def note_turn(session: str, turn: str) -> None:
    """Of the request under way."""
    if (where := _where.get()) is not None:
        where.session, where.turn = session, turn


def log_to(config: LogConfig, redact: Callable[[str], str], stream: TextIO | None = None) -> None:
    """From now on the log goes to stderr, or there. Whatever wrote it before does so no more."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(redact) if config.format == "json" else TextLines(redact))
    logging.basicConfig(handlers=[handler], level=config.level.upper(), force=True)


class TextLines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in {**_ids(), **_fields(record)}.items())
        said = " ".join(record.getMessage().splitlines())
        line = visible(f"{record.levelname} {record.name}: {said}{' ' if ids else ''}{ids}")
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
    where = _where.get()
    given: dict[str, str] = msgspec.structs.asdict(where) if where is not None else {}
    return {name: value for name, value in given.items() if value}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra={"fields": …}`: the few figures of a request."""
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
