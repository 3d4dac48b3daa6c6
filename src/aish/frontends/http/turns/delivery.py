"""Runs a turn for a client and delivers it, as a stream or as a whole; with a summary of it in a header.

`x-runtime-trace` says in brief what a turn did, for clients that ask with `trace`. `/v1/traces/{turn}` has all of it. A
stream begins before there is anything to sum up, so its header only says where to look.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

from aish.errors import AishError, drop_traceback
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.metrics.counters import TurnMeter
from aish.frontends.http.server.http_errors import HttpProblem, ShutDown, problem_of, without_retry
from aish.frontends.http.server.reply_stream import Encoder, ReplyStream
from aish.frontends.http.server.service import Service
from aish.ports import Ask
from aish.types.events import Event, PlanAccepted, PlanRejected, StepStarted, ToolResult
from aish.types.requests import TurnRequest


class TurnEncoder(Encoder, Protocol):
    """`encode` sets `failed` when the turn has failed; if the reply has not begun, it can still get an error status.
    `effects`: something has been done that must not be done again."""

    failed: HttpProblem | None
    effects: bool

    def encode(self, events: Sequence[Event]) -> bytes: ...

    def word(self, text: str) -> bytes:
        """The same for one word of text, after the first."""

    def failure(self, problem: HttpProblem) -> bytes:
        """The error and the end of the stream."""


class TurnCollector(Protocol):
    def feed(self, events: Sequence[Event]) -> None: ...

    def body(self) -> bytes:
        """Raises HttpProblem if the turn has failed."""


async def stream_turn(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    streamer: TurnEncoder,
    request: TurnRequest,
    ask: Ask | None,
    *,
    trace: bool = False,
) -> None:
    meter, unsent = TurnMeter(service.metrics), b""
    heartbeat_s = service.config.heartbeat_s
    with ReplyStream(exchange, streamer, heartbeat_s=heartbeat_s, encode_word=streamer.word) as reply_stream:
        try:
            try:
                async with service.engine.turn(
                    request, ask=ask, on_left=meter.count_abandoned, text_sink=reply_stream
                ) as batches:
                    async for events in batches:
                        is_first = not meter.turn
                        meter.observe(events)
                        streamer.effects = meter.had_effect
                        data = streamer.encode(events)
                        if is_first:
                            add_turn_header(exchange, meter.turn, trace=trace)
                        if streamer.failed is not None and not exchange.started:
                            unsent += data  # it becomes an error status, if no data is sent before the turn has ended
                        elif data:
                            await reply_stream.send(data)
            except asyncio.CancelledError as exc:
                reply_stream.check_shut_down(exc)
                raise
            if streamer.failed is not None:
                if not exchange.started:
                    raise streamer.failed
                exchange.failed_status = _resolve_problem(meter, streamer.failed).status
                if unsent:
                    await reply_stream.send(unsent)
        except (AishError, HttpProblem) as exc:
            problem = _resolve_problem(meter, exc)
            if not exchange.started:
                raise problem from None
            exchange.failed_status = problem.status
            await reply_stream.send(streamer.failure(problem))
        finally:
            if caller.key:
                await service.keys.save_spending(caller.key)
        await reply_stream.finish()
        if request.retry_key:
            await service.engine.forget_attempts(meter.turn)


async def collect_turn(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    whole: TurnCollector,
    request: TurnRequest,
    ask: Ask | None,
    *,
    trace: bool = False,
) -> None:
    meter, summary = TurnMeter(service.metrics), TraceSummary() if trace else None
    with ReplyStream(exchange, None) as reply_stream:
        try:
            try:
                async with service.engine.turn(request, ask=ask, on_left=meter.count_abandoned) as batches:
                    async for events in batches:
                        meter.observe(events)
                        whole.feed(events)
                        if summary is not None:
                            summary.observe(events)
            except asyncio.CancelledError as exc:
                reply_stream.check_shut_down(exc)
                raise
            body = whole.body()
            if summary is not None:
                exchange.extra.append(summary.header())
        except (AishError, HttpProblem) as exc:
            raise _resolve_problem(meter, exc) from None
        finally:
            add_turn_header(exchange, meter.turn)
            if caller.key:
                await service.keys.save_spending(caller.key)
    await exchange.reply(200, body)
    if request.retry_key:
        await service.engine.forget_attempts(meter.turn)


def add_turn_header(exchange: Exchange, turn: str, *, trace: bool = False) -> None:
    """Names the turn, so that it can be found at `/v1/traces/…`. There is none if it failed before it began."""
    if turn:
        exchange.extra.append((b"x-turn-id", turn.encode()))
    if turn and trace:
        exchange.extra.append(trace_link(turn))


def _resolve_problem(meter: TurnMeter, error: AishError | HttpProblem) -> HttpProblem:
    """The error that the client gets. A call that was broken off may have had its effect, too."""
    problem = error if isinstance(error, HttpProblem) else problem_of(error)
    drop_traceback(error)
    broken_off = isinstance(error, ShutDown) and meter.has_open_call
    return without_retry(problem, effects=meter.had_effect or broken_off)


HEADER = b"x-runtime-trace"
_MAX_BYTES = 4096  # proxies refuse larger headers


class TraceSummary:
    def __init__(self) -> None:
        self._turn, self._steps, self._rewrites = "", 0, 0
        self._plan: list[str] | None = None
        self._calls: list[dict[str, Any]] = []

    def observe(self, events: Sequence[Event]) -> None:
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
        """Leaves out calls that do not fit, the last ones first."""
        planned = {} if self._plan is None else {"plan": self._plan, "rewrites": self._rewrites}
        summary = {"turn": self._turn, "steps": self._steps, **planned, "tool_calls": self._calls}
        while len(encoded := _encode_summary({**summary, "more": _place(self._turn)})) > _MAX_BYTES and self._calls:
            self._calls.pop()
        return HEADER, encoded


def trace_link(turn: str) -> tuple[bytes, bytes]:
    return HEADER, _encode_summary({"turn": turn, "more": _place(turn)})


def _place(turn: str) -> str:
    return f"/v1/traces/{turn}"


def _encode_summary(summary: dict[str, Any]) -> bytes:
    return json.dumps(summary, separators=(",", ":")).encode()  # in ASCII, which every header may hold
