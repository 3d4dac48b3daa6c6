"""`x-runtime-trace`: what a turn did, in brief, for clients that ask with `trace`. The whole is at `/v1/traces/{turn}`.

A stream begins before there is anything to sum up: its header only says where to look.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aish.types.events import Event, PlanAccepted, PlanRejected, StepStarted, ToolResult

HEADER = b"x-runtime-trace"
_MAX_BYTES = 4096  # proxies refuse larger headers


class TraceSummary:
    def __init__(self) -> None:
        self._turn, self._steps, self._rewrites = "", 0, 0
        self._plan: list[str] | None = None
        self._calls: list[dict[str, Any]] = []

    def see(self, events: Sequence[Event]) -> None:
        for event in events:
            match event.body:
                case StepStarted():
                    self._turn, self._steps = event.turn, event.step
                case PlanAccepted(plan):
                    self._plan = [step["tool"] for step in plan["steps"]]
                case PlanRejected():
                    self._rewrites += 1
                case ToolResult(name, status, duration_ms=duration_ms):
                    self._calls.append({"tool": name, "status": status, "ms": duration_ms})
                case _:
                    pass

    def header(self) -> tuple[bytes, bytes]:
        """Calls that do not fit are left out, the last first."""
        planned = {} if self._plan is None else {"plan": self._plan, "rewrites": self._rewrites}
        summary = {"turn": self._turn, "steps": self._steps, **planned, "tool_calls": self._calls}
        while len(encoded := _encoded({**summary, "more": _place(self._turn)})) > _MAX_BYTES and self._calls:
            self._calls.pop()
        return HEADER, encoded


def trace_link(turn: str) -> tuple[bytes, bytes]:
    return HEADER, _encoded({"turn": turn, "more": _place(turn)})


def _place(turn: str) -> str:
    return f"/v1/traces/{turn}"


def _encoded(summary: dict[str, Any]) -> bytes:
    return json.dumps(summary, separators=(",", ":")).encode()  # in ASCII, which every header may hold
