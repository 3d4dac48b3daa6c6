"""Runs a turn for a client and delivers it: as a stream while it happens, or as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from aish.errors import AishError, drop_traceback
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.metrics.counters import TurnMeter
from aish.frontends.http.server.disconnect_monitor import Encoder, Watch
from aish.frontends.http.server.http_errors import Problem, ShutDown, problem_of, settled
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.trace_summary import TraceSummary, trace_link
from aish.ports import Ask
from aish.types.events import Event
from aish.types.requests import TurnRequest


class Streamer(Encoder, Protocol):
    """`failed` is set by `encode` when the turn has failed; the stream may still be able to say so with a status.
    `effects`: something has been done that must not be done again."""

    failed: Problem | None
    effects: bool

    def encode(self, events: Sequence[Event]) -> bytes: ...

    def word(self, text: str) -> bytes:
        """The same for a word that the model has said, after others."""

    def failure(self, problem: Problem) -> bytes:
        """The error and the end of the stream."""


class Whole(Protocol):
    def feed(self, events: Sequence[Event]) -> None: ...

    def body(self) -> bytes:
        """Raises Problem."""


async def stream_turn(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    streamer: Streamer,
    request: TurnRequest,
    ask: Ask | None,
    *,
    trace: bool = False,
) -> None:
    meter, unsent = TurnMeter(service.metrics), b""
    with Watch(exchange, streamer, heartbeat_s=service.config.heartbeat_s) as watch:
        watch.word = streamer.word
        try:
            try:
                async with service.engine.turn(request, ask=ask, left=meter.see_left, listener=watch) as batches:
                    async for events in batches:
                        is_first = not meter.turn
                        meter.see(events)
                        streamer.effects = meter.had_effect
                        data = streamer.encode(events)
                        if is_first:
                            name_turn(exchange, meter.turn, trace=trace)
                        if streamer.failed is not None and not exchange.started:
                            unsent += data  # it is told by a status, if nothing begins before the turn has ended
                        elif data:
                            await watch.send(data)
            except asyncio.CancelledError as exc:
                watch.check_shut_down(exc)
                raise
            if streamer.failed is not None:
                if not exchange.started:
                    raise streamer.failed
                exchange.failed_status = _settled(meter, streamer.failed).status
                if unsent:
                    await watch.send(unsent)
        except (AishError, Problem) as exc:
            problem = _settled(meter, exc)
            if not exchange.started:
                raise problem from None
            exchange.failed_status = problem.status
            await watch.send(streamer.failure(problem))
        finally:
            if caller.key:
                await service.keys.spend(caller, meter.usage)
        await watch.finish()


async def collect_turn(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    whole: Whole,
    request: TurnRequest,
    ask: Ask | None,
    *,
    trace: bool = False,
) -> bytes:
    meter, summary = TurnMeter(service.metrics), TraceSummary() if trace else None
    with Watch(exchange, None) as watch:
        try:
            try:
                async with service.engine.turn(request, ask=ask, left=meter.see_left) as batches:
                    async for events in batches:
                        meter.see(events)
                        whole.feed(events)
                        if summary is not None:
                            summary.see(events)
            except asyncio.CancelledError as exc:
                watch.check_shut_down(exc)
                raise
            body = whole.body()
            if summary is not None:
                exchange.extra.append(summary.header())
            return body
        except (AishError, Problem) as exc:
            raise _settled(meter, exc) from None
        finally:
            name_turn(exchange, meter.turn)
            if caller.key:
                await service.keys.spend(caller, meter.usage)


def name_turn(exchange: Exchange, turn: str, *, trace: bool = False) -> None:
    """So that what happened can be looked up at `/v1/traces/…`. There is none where it failed before it began."""
    if turn:
        exchange.extra.append((b"x-turn-id", turn.encode()))
    if turn and trace:
        exchange.extra.append(trace_link(turn))


def _settled(meter: TurnMeter, error: AishError | Problem) -> Problem:
    """A call that was broken off may have had its effect, too."""
    problem = error if isinstance(error, Problem) else problem_of(error)
    drop_traceback(error)
    broken_off = isinstance(error, ShutDown) and meter.has_open_call
    return settled(problem, effects=meter.had_effect or broken_off)
