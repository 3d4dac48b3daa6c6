"""Responses in the background: they run on their own and are polled, cancelled, and streamed from any event on.

While a response is made, its stream is followed; later it is made again from the recorded events. Processes that share
a store (workers, replicas) stream each other's responses from the recorded events. They cancel them with a note in the
store, which the process at work looks for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress

from aish.errors import AishError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.responses.encoder import ResponseEncoder
from aish.frontends.http.openai.responses.replay import StreamReplay, slice_events
from aish.frontends.http.openai.responses.run import Link, ResponseRun
from aish.frontends.http.openai.responses.store import RUNNING, ResponseStore
from aish.frontends.http.openai.responses.turn_requests import ResponsePlan
from aish.frontends.http.server.http_errors import HttpProblem, ShutDown, bad_field
from aish.frontends.http.server.reply_stream import ReplyStream
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.background_turns import BackgroundTurn
from aish.types.records import Document

log = logging.getLogger(__name__)


class _Follower:
    """The heartbeat of a stream whose opening is part of its pieces."""

    heartbeat = b": ping\n\n"

    def opening(self) -> bytes:
        return b""


class BackgroundResponses:
    def __init__(self, service: Service, response_store: ResponseStore, link: Link) -> None:
        self._service = service
        self._response_store = response_store
        self._turns = service.background_turns
        self._link = link
        self._remote = RemoteResponses(service, response_store)
        self._runs: dict[str, ResponseRun] = {}

    async def begin(self, exchange: Exchange, caller: Caller, plan: ResponsePlan, stack: AsyncExitStack) -> None:
        """Takes `stack` over: it is closed when the response is made."""
        service, id = self._service, plan.id
        async with AsyncExitStack() as until_begun:
            until_begun.push_async_callback(stack.aclose)
            self._turns.check_room()
            stack.enter_context(service.active_request())  # it keeps the engine that it begins with
            await service.engine.router.resolve(plan.body.model)
            run = ResponseRun(service, self._response_store, caller, plan, self._link, has_begun=lambda: True)
            live = BackgroundTurn(id, refill=lambda first, upto: self._refill(run, first, upto))
            live.push(run.stream.opening(), 2)
            self._runs[id] = run
            self._response_store.running.add(id)
            until_begun.callback(self._forget, id)
            await self._response_store.put(id, caller.key, run.document())
            self._turns.start(live, self._run(run, live, stack))
            until_begun.pop_all()
        if plan.body.stream:
            await self._deliver(exchange, live.follow(0), run.stream)
        else:
            await exchange.reply(200, run.stream.snapshot())

    async def current(self, id: str, caller: Caller) -> bytes:
        """The response object as it stands."""
        stored = await self._response_store.get(id, caller.key)
        run = self._runs.get(id)
        return run.stream.snapshot() if run is not None else bytes(stored.response)

    async def end(self, id: str, caller: Caller) -> None:
        """Cancels the response if it is still being made, here or in another process."""
        live = self._turns.find(id)
        if live is None:
            await self._remote.cancel(id, caller.key)
        else:
            await live.cancel()

    async def resume(self, exchange: Exchange, caller: Caller, id: str, number: int) -> None:
        stored = await self._response_store.get(id, caller.key)
        if stored.setup is None:
            raise bad_field("stream", "only a response in the background can be streamed again")
        live, run = self._turns.find(id), self._runs.get(id)
        if live is not None and run is not None:
            await self._deliver(exchange, live.follow(number), run.stream)
            return
        stream = ResponseEncoder(stored.setup)
        await self._deliver(exchange, self._remote.follow(id, caller.key, stream, number), stream)

    async def _run(self, run: ResponseRun, live: BackgroundTurn, stack: AsyncExitStack) -> None:
        async with stack, self._remote.stopping_on_request(run.plan.id, live):
            try:
                await self._relay_run(run, live)
            except asyncio.CancelledError:
                await self._close(run, live)
            except Exception:
                log.exception("a response failed by a defect of aish")
                await self._close(run, live, HttpProblem(500, "aish failed to make this response"))
            finally:
                self._forget(run.plan.id)

    async def _relay_run(self, run: ResponseRun, live: BackgroundTurn) -> None:
        async with aclosing(run.pieces()) as pieces:
            stored = 0
            async for data in pieces:
                live.push(data, run.stream.number - live.next_number)
                if len(run.turns) > stored and not run.stream.whole:
                    stored = len(run.turns)
                    await run.tell_others()
        await run.forget_attempts()

    async def _close(self, run: ResponseRun, live: BackgroundTurn, problem: HttpProblem | None = None) -> None:
        """Ends the stream. A response that had just ended when it was cancelled stays as it is, and its end is sent."""
        stream = run.stream
        if not stream.whole:
            if problem is None and self._turns.closing:
                problem = ShutDown()
            run.last = stream.cancel() if problem is None else stream.fail(problem)
        elif problem is not None or live.next_number == stream.number:
            return  # its end has been sent, or cannot be
        await run.keep()
        live.push(run.last, stream.number - live.next_number)

    def _forget(self, id: str) -> None:
        self._runs.pop(id, None)
        self._response_store.running.discard(id)

    async def _refill(self, run: ResponseRun, first: int, upto: int) -> bytes:
        self._service.engine.flush_running_turns(run.turns)  # events must be in the store before they can be sent again
        await self._service.store.flush(durable=False)
        stream = ResponseEncoder(run.plan.setup)
        data = stream.opening() + await StreamReplay(self._service.store, stream).read(run.turns)
        return slice_events(data, first, upto)

    async def _deliver(self, exchange: Exchange, pieces: AsyncGenerator[bytes, None], stream: ResponseEncoder) -> None:
        config, follower = self._service.config, _Follower()
        reply_stream = ReplyStream(exchange, follower, heartbeat_s=config.heartbeat_s)
        with reply_stream:
            async with aclosing(pieces):
                async for data in pieces:
                    follower.heartbeat = stream.heartbeat
                    await reply_stream.send(data)
                await reply_stream.finish()


KIND = "response_cancel"
# How often to look for changes by another process.
POLL_S = 0.5
_CANCEL_NOTE_MS = 3600 * 1000
_CANCEL_S = 15.0  # for the other process to notice and to end it


class RemoteResponses:
    """Responses that another process makes, or that were made before, as far as the store has them."""

    def __init__(self, service: Service, response_store: ResponseStore) -> None:
        self._service = service
        self._response_store = response_store

    async def follow(self, id: str, owner: str, stream: ResponseEncoder, number: int) -> AsyncGenerator[bytes, None]:
        """Yields the events from `number` on, to the end, as soon as they are in the store."""
        again = StreamReplay(self._service.store, stream)
        data, begins = stream.opening(), 0
        while True:
            stored = await self._response_store.get(id, owner)
            data += await again.read(stored.turns)
            if stored.status not in RUNNING:
                data += stream.end_with(stored.status, bytes(stored.response))
            if wanted := slice_events(data, max(0, number - begins), None):
                yield wanted
            if stored.status not in RUNNING:
                return
            data, begins = b"", stream.number
            await asyncio.sleep(POLL_S)

    async def cancel(self, id: str, owner: str) -> None:
        """Returns when it has ended, or after a while if it does not."""
        if (await self._response_store.get(id, owner)).status not in RUNNING:
            return
        now_ms = time.time_ns() // 1_000_000
        await self._service.store.put(
            Document(KIND, id, b"{}", owner, created_ms=now_ms, expires_ms=now_ms + _CANCEL_NOTE_MS)
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                while True:
                    await asyncio.sleep(POLL_S)
                    if (await self._response_store.get(id, owner)).status not in RUNNING:
                        return

    @asynccontextmanager
    async def stopping_on_request(self, id: str, live: BackgroundTurn) -> AsyncIterator[None]:
        """A context in which the turn is stopped when another process asks for it."""
        looking = asyncio.create_task(self._wait_for_cancel(id, live))
        try:
            yield
        finally:
            looking.cancel()

    async def _wait_for_cancel(self, id: str, live: BackgroundTurn) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with suppress(AishError):  # if the store fails, the turn itself reports it
                if await self._service.store.find(KIND, id) is not None:
                    live.stop()
                    return
