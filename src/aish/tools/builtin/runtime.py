"""`runtime__add`, `runtime__echo`, `runtime__time`: small tools without effects, always available."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo

from aish.errors import ToolError
from aish.ports import CallContext, Clock
from aish.types.messages import TextPart
from aish.types.tools import Arguments, Effect, JsonSchema, ResultStatus, ToolOutput, ToolSpec

_NUMBER: JsonSchema = {"type": "number"}


def _object(properties: JsonSchema, *required: str) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_SPECS = (
    ToolSpec(
        "add", "Add two numbers.", _object({"a": _NUMBER, "b": _NUMBER}, "a", "b"), Effect.READ, "runtime", timeout_s=5
    ),
    ToolSpec(
        "echo", "Return the text unchanged.", _object({"text": {"type": "string"}}, "text"), Effect.READ, "runtime",
        timeout_s=5,
    ),
    ToolSpec(
        "time",
        "The current date and time, in UTC or in a named time zone.",
        _object({"zone": {"type": "string", "description": "IANA name such as Europe/Berlin"}}),
        Effect.READ, "runtime", timeout_s=5,
    ),
)  # fmt: skip


class RuntimeTools:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tools: dict[str, Callable[[Arguments], str]] = {"add": _add, "echo": _echo, "time": self._time}

    def specs(self) -> Sequence[ToolSpec]:
        return _SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        return ToolOutput((TextPart(tool(arguments)),))

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _time(self, arguments: Arguments) -> str:
        zone = _zone(str(arguments.get("zone", "UTC")))
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).astimezone(zone)
        return moment.isoformat(timespec="seconds")


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ToolError(f"there is no time zone {name}; use an IANA name such as Europe/Berlin") from exc


def _add(arguments: Arguments) -> str:
    total = arguments["a"] + arguments["b"]
    return str(int(total)) if isinstance(total, float) and total.is_integer() and abs(total) < 2**53 else str(total)


def _echo(arguments: Arguments) -> str:
    return str(arguments["text"])
