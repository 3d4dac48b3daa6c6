"""Runs a turn for a client and delivers it: as a stream while it happens, or as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aish.errors import AishError
from aish.faces.asgi import Exchange
from aish.faces.http.callers import Caller
from aish.faces.http.metrics import TurnMeter
from aish.faces.http.problems import Problem, ShutDown, problem_of, settled
from aish.faces.http.service import Service
from aish.faces.http.watch import Encoder, Watch
from aish.ports import Ask
from aish.types.events import Event, ToolCallReady, ToolResult, TurnStarted
from aish.types.requests import TurnRequest
from aish.types.tools import Effect


class Streamer(Encoder, Protocol):
    """`failed` is set by `encode` when the turn has failed; the stream may still be able to say so with a status.
    `effects`: something has been done that must not be done again."""

    failed: Problem | None
    effects: bool

    def encode(self, events: Sequence[Event]) -> bytes: ...

    def failure(self, problem: Problem) -> bytes:
        """The error and the end of the stream."""


class Whole(Protocol):
    def feed(self, events: Sequence[Event]) -> None: ...

    def body(self) -> bytes:
        """Raises Problem."""


async def stream_turn(
    service: Service, exchange: Exchange, caller: Caller, streamer: Streamer, request: TurnRequest, ask: Ask | None
) -> None:
    meter, deeds = TurnMeter(service.metrics), _Deeds()
    async with _watch(service, exchange, streamer) as watch:
        try:
            with watch.until_shut_down():
                async with service.engine.turn(request, ask=ask) as batches:
                    async for events in batches:
                        if not exchange.started:
                            _name_turn(exchange, events)
                        meter.see(events)
                        deeds.see(events)
                        streamer.effects = deeds.had_effect
                        data = streamer.encode(events)
                        if streamer.failed is not None and not exchange.started:
                            raise streamer.failed
                        if data:
                            await watch.send(data)
            if streamer.failed is not None:
                exchange.failed_status = deeds.settled(streamer.failed).status
        except (AishError, Problem) as exc:
            problem = deeds.settled(exc)
            if not exchange.started:
                raise problem from exc
            exchange.failed_status = problem.status
            await watch.send(streamer.failure(problem))
        finally:
            await service.keys.spend(caller, meter.usage)
        await watch.finish()


async def collect_turn(
    service: Service, exchange: Exchange, caller: Caller, whole: Whole, request: TurnRequest, ask: Ask | None
) -> bytes:
    meter, deeds = TurnMeter(service.metrics), _Deeds()
    async with _watch(service, exchange, None) as watch:
        try:
            with watch.until_shut_down():
                async with service.engine.turn(request, ask=ask) as batches:
                    async for events in batches:
                        _name_turn(exchange, events)
                        meter.see(events)
                        deeds.see(events)
                        whole.feed(events)
            return whole.body()
        except (AishError, Problem) as exc:
            raise deeds.settled(exc) from exc
        finally:
            await service.keys.spend(caller, meter.usage)


def _name_turn(exchange: Exchange, events: Sequence[Event]) -> None:
    """So that what happened can be looked up at `/v1/traces/…`."""
    if isinstance(events[0].body, TurnStarted):
        exchange.extra.append((b"x-turn-id", events[0].turn.encode()))


def _watch(service: Service, exchange: Exchange, encoder: Encoder | None) -> Watch:
    config = service.config
    return Watch(exchange, encoder, heartbeat_s=config.heartbeat_s)


class _Deeds:
    """What a turn has done that must not be done again."""

    def __init__(self) -> None:
        self.had_effect = False
        self._open: set[str] = set()  # calls without a result

    def see(self, events: Sequence[Event]) -> None:
        for event in events:
            body = event.body
            if isinstance(body, ToolCallReady):
                self._open.add(event.call)
            elif isinstance(body, ToolResult):
                self._open.discard(event.call)
                self.had_effect = self.had_effect or body.effect not in (None, Effect.READ)

    def settled(self, error: AishError | Problem) -> Problem:
        """A call that was broken off may have had its effect, too."""
        problem = error if isinstance(error, Problem) else problem_of(error)
        broken_off = isinstance(error, ShutDown) and bool(self._open)
        return settled(problem, effects=self.had_effect or broken_off)
