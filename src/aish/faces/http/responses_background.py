"""Responses in the background: run on their own, polled, cancelled, and streamed to whoever comes, from any event on.

A stream is followed while the response is made; afterwards it is made again from the recorded events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from aish.faces.asgi import Exchange
from aish.faces.http.callers import Caller
from aish.faces.http.live import LiveTurn
from aish.faces.http.problems import Problem, bad_field
from aish.faces.http.responses_encode import ResponseStream
from aish.faces.http.responses_forms import Setup
from aish.faces.http.responses_plan import Plan
from aish.faces.http.responses_run import Link, Making, without_end
from aish.faces.http.responses_store import RUNNING, Shelf
from aish.faces.http.service import Service
from aish.faces.http.watch import Watch
from aish.types.events import decode_event

log = logging.getLogger(__name__)


class _Follower:
    """For the watch: the stream begins with what it says itself."""

    heartbeat = b": ping\n\n"

    def opening(self) -> bytes:
        return b""


class Background:
    def __init__(self, service: Service, shelf: Shelf, link: Link) -> None:
        self._service = service
        self._shelf = shelf
        self._turns = service.live
        self._link = link
        self._makings: dict[str, Making] = {}
        self._cancelled: set[str] = set()

    async def begin(self, exchange: Exchange, caller: Caller, plan: Plan, stack: AsyncExitStack) -> None:
        """Takes `stack` over: it is closed when the response is made."""
        service, id = self._service, plan.id
        async with AsyncExitStack() as until_begun:
            until_begun.push_async_callback(stack.aclose)
            self._turns.check_room()
            stack.enter_context(service.request())  # it keeps the engine it begins with
            await service.engine.router.resolve(plan.asked.model)
            making = Making(service, self._shelf, caller, plan, self._link, has_begun=lambda: True)
            live = LiveTurn(id, refill=lambda first, upto: self._refill(making, first, upto))
            live.push(making.stream.opening(), 2)
            self._makings[id] = making
            self._shelf.running.add(id)
            until_begun.callback(self._forget, id)
            await self._shelf.put(id, caller.key, making.document())
            self._turns.start(live, self._run(making, live, stack))
            until_begun.pop_all()
        if plan.asked.stream:
            await self._deliver(exchange, live.follow(0), making.stream)
        else:
            await exchange.reply(200, making.stream.snapshot())

    async def current(self, id: str, caller: Caller) -> bytes:
        """The response object as it stands."""
        kept = await self._shelf.get(id, caller.key)
        making = self._makings.get(id)
        return making.stream.snapshot() if making is not None else bytes(kept.response)

    async def end(self, id: str) -> None:
        """Cancels it, if it is still being made."""
        live = self._turns.find(id)
        if live is not None:
            self._cancelled.add(id)
            await live.cancel()

    async def resume(self, exchange: Exchange, caller: Caller, id: str, number: int) -> None:
        kept = await self._shelf.get(id, caller.key)
        if kept.setup is None:
            raise bad_field("stream", "only a response in the background can be streamed again")
        live, making = self._turns.find(id), self._makings.get(id)
        if live is not None and making is not None:
            await self._deliver(exchange, live.follow(number), making.stream)
            return
        if kept.status in RUNNING:
            raise Problem(409, "another process makes this response; ask for it when it is done", code="not_here")
        stream, data = await self._again(kept.setup, kept.turns)
        data += stream.end_with(kept.status, bytes(kept.response))
        await self._deliver(exchange, _once(_events(data, number, None)), stream)

    async def _run(self, making: Making, live: LiveTurn, stack: AsyncExitStack) -> None:
        async with stack:
            try:
                await self._follow_making(making, live)
            except asyncio.CancelledError:
                await self._close(making, live)
            except Exception:
                log.exception("a response failed by a defect of aish")
                await self._close(making, live, Problem(500, "aish failed to make this response"))
            finally:
                self._forget(making.plan.id)

    async def _follow_making(self, making: Making, live: LiveTurn) -> None:
        async with aclosing(making.pieces()) as pieces:
            async for data in pieces:
                live.push(data, making.stream.next_number - live.next_number)

    async def _close(self, making: Making, live: LiveTurn, problem: Problem | None = None) -> None:
        stream = making.stream
        if stream.whole:
            return
        if problem is None and making.plan.id in self._cancelled:
            last = stream.cancel()
        else:
            last = stream.fail(problem or Problem(503, "aish was shut down before this response was made"))
        await making.keep()
        live.push(last, stream.next_number - live.next_number)

    def _forget(self, id: str) -> None:
        self._makings.pop(id, None)
        self._shelf.running.discard(id)
        self._cancelled.discard(id)

    async def _refill(self, making: Making, first: int, upto: int) -> bytes:
        _, data = await self._again(making.plan.setup, tuple(making.turns))
        return _events(data, first, upto)

    async def _again(self, setup: Setup, turns: tuple[str, ...]) -> tuple[ResponseStream, bytes]:
        """The stream up to what was recorded, without its end."""
        store, stream = self._service.store, ResponseStream(setup)
        pieces = [stream.opening()]
        await store.flush(durable=False)
        for place, turn in enumerate(turns):
            events = [decode_event(line) for line in (await store.read_events(turn)).splitlines()]
            pieces.append(stream.encode(without_end(events) if setup.approved and place == 0 else events))
        return stream, b"".join(pieces)

    async def _deliver(self, exchange: Exchange, pieces: AsyncGenerator[bytes, None], stream: ResponseStream) -> None:
        config, follower = self._service.config, _Follower()
        watch = Watch(exchange, follower, heartbeat_s=config.heartbeat_s, send_timeout_s=config.send_timeout_s)
        async with watch, aclosing(pieces):
            async for data in pieces:
                follower.heartbeat = stream.heartbeat
                await watch.send(data)
            await watch.finish()


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    if data:
        yield data


def _events(data: bytes, first: int, upto: int | None) -> bytes:
    chosen = data.split(b"\n\n")[:-1][first:upto]
    return b"".join(event + b"\n\n" for event in chosen)
