"""Responses in the background: run on their own, polled, cancelled, and streamed to whoever comes, from any event on.

A stream is followed while the response is made; afterwards it is made again from the recorded events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.responses.encoder import ResponseStream
from aish.frontends.http.openai.responses.plan import Plan
from aish.frontends.http.openai.responses.remote import Elsewhere
from aish.frontends.http.openai.responses.replay import Again, cut
from aish.frontends.http.openai.responses.run import Link, Making
from aish.frontends.http.openai.responses.store import ResponseStore
from aish.frontends.http.server.disconnect_monitor import Watch
from aish.frontends.http.server.http_errors import Problem, ShutDown, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.background_turns import LiveTurn

log = logging.getLogger(__name__)


class _Follower:
    """For the watch: the stream begins with what it says itself."""

    heartbeat = b": ping\n\n"

    def opening(self) -> bytes:
        return b""


class Background:
    def __init__(self, service: Service, response_store: ResponseStore, link: Link) -> None:
        self._service = service
        self._response_store = response_store
        self._turns = service.live
        self._link = link
        self._elsewhere = Elsewhere(service, response_store)
        self._makings: dict[str, Making] = {}

    async def begin(self, exchange: Exchange, caller: Caller, plan: Plan, stack: AsyncExitStack) -> None:
        """Takes `stack` over: it is closed when the response is made."""
        service, id = self._service, plan.id
        async with AsyncExitStack() as until_begun:
            until_begun.push_async_callback(stack.aclose)
            self._turns.check_room()
            stack.enter_context(service.request())  # it keeps the engine it begins with
            await service.engine.router.resolve(plan.asked.model)
            making = Making(service, self._response_store, caller, plan, self._link, has_begun=lambda: True)
            live = LiveTurn(id, refill=lambda first, upto: self._refill(making, first, upto))
            live.push(making.stream.opening(), 2)
            self._makings[id] = making
            self._response_store.running.add(id)
            until_begun.callback(self._forget, id)
            await self._response_store.put(id, caller.key, making.document())
            self._turns.start(live, self._run(making, live, stack))
            until_begun.pop_all()
        if plan.asked.stream:
            await self._deliver(exchange, live.follow(0), making.stream)
        else:
            await exchange.reply(200, making.stream.snapshot())

    async def current(self, id: str, caller: Caller) -> bytes:
        """The response object as it stands."""
        kept = await self._response_store.get(id, caller.key)
        making = self._makings.get(id)
        return making.stream.snapshot() if making is not None else bytes(kept.response)

    async def end(self, id: str, caller: Caller) -> None:
        """Cancels it, if it is still being made, here or in another process."""
        live = self._turns.find(id)
        if live is None:
            await self._elsewhere.cancel(id, caller.key)
        else:
            await live.cancel()

    async def resume(self, exchange: Exchange, caller: Caller, id: str, number: int) -> None:
        kept = await self._response_store.get(id, caller.key)
        if kept.setup is None:
            raise bad_field("stream", "only a response in the background can be streamed again")
        live, making = self._turns.find(id), self._makings.get(id)
        if live is not None and making is not None:
            await self._deliver(exchange, live.follow(number), making.stream)
            return
        stream = ResponseStream(kept.setup)
        await self._deliver(exchange, self._elsewhere.follow(id, caller.key, stream, number), stream)

    async def _run(self, making: Making, live: LiveTurn, stack: AsyncExitStack) -> None:
        async with stack, self._elsewhere.heeding(making.plan.id, live):
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
            told = 0
            async for data in pieces:
                live.push(data, making.stream.number - live.next_number)
                if len(making.turns) > told and not making.stream.whole:
                    told = len(making.turns)
                    await making.tell_others()

    async def _close(self, making: Making, live: LiveTurn, problem: Problem | None = None) -> None:
        """One that was told to stop when it had just ended stays as it is, and its end is told."""
        stream = making.stream
        if not stream.whole:
            if problem is None and self._turns.closing:
                problem = ShutDown()
            making.last = stream.cancel() if problem is None else stream.fail(problem)
        elif problem is not None or live.next_number == stream.number:
            return  # its end has been told, or cannot be
        await making.keep()
        live.push(making.last, stream.number - live.next_number)

    def _forget(self, id: str) -> None:
        self._makings.pop(id, None)
        self._response_store.running.discard(id)

    async def _refill(self, making: Making, first: int, upto: int) -> bytes:
        self._service.engine.catch_up(making.turns)  # what was sent is sent again
        await self._service.store.flush(durable=False)
        stream = ResponseStream(making.plan.setup)
        data = stream.opening() + await Again(self._service.store, stream).read(making.turns)
        return cut(data, first, upto)

    async def _deliver(self, exchange: Exchange, pieces: AsyncGenerator[bytes, None], stream: ResponseStream) -> None:
        config, follower = self._service.config, _Follower()
        watch = Watch(exchange, follower, heartbeat_s=config.heartbeat_s)
        with watch:
            async with aclosing(pieces):
                async for data in pieces:
                    follower.heartbeat = stream.heartbeat
                    await watch.send(data)
                await watch.finish()
