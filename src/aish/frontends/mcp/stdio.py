"""The stdio transport: newline JSON-RPC on two file descriptors.

Life: reads until its input ends or its output breaks. Then what is still running has a moment to finish, is cancelled,
and `serve` returns. Requests run side by side; answers and notifications leave in the order they were made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from aish.frontends.mcp.lane import BlockingLane
from aish.frontends.mcp.protocol import Answer, ToolServer, failure
from aish.frontends.mcp.requests import Request, cancelled_request, read_messages, read_request
from aish.frontends.mcp.revisions import BUSY, WORDS_ONLY, check_envelope, negotiate, speaks_stateless
from aish.net.framing import NewlineFraming, Oversize
from aish.net.jsonrpc_message import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, encode_notification
from aish.types.tools import ToolSpec

_READ_BYTES = 64 * 1024
MAX_REQUESTS = 1024  # being answered at once, most of them waiting; a client that asks for more has lost its way
_MAX_HELD_BYTES = 64 * 1024 * 1024  # of requests that are being answered
_MAX_WAITING = 1024  # messages for a client that does not read; then requests wait and notifications are dropped
# Clients close our input and wait about two seconds before they send SIGTERM.
_FINISH_S = 1.0
_WATCH_S = 1.0  # how soon a client hears of a changed list


class StdioServer:
    def __init__(self, server: ToolServer, *, source_fd: int, sink_fd: int, watch_s: float = _WATCH_S) -> None:
        self._server = server
        self._source_fd = source_fd
        self._sink_fd = sink_fd
        self._watch_s = watch_s
        self._framing = NewlineFraming()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue(_MAX_WAITING)
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._structured = True  # results, as far as the client knows
        self._held_bytes = 0
        self._batches: set[asyncio.Task[None]] = set()
        self._listed: Sequence[ToolSpec] | None = None  # as the client knows it; None: it has not asked

    async def serve(self) -> None:
        async with self._background() as (reading, writing):
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if tasks := self._tasks():
                await asyncio.wait(tasks, timeout=_FINISH_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FINISH_S):
                    await self._outbox.join()

    @asynccontextmanager
    async def _background(self) -> AsyncIterator[tuple[asyncio.Future[None], asyncio.Future[None]]]:
        """Reading and writing; on leaving, everything is stopped."""
        tasks = [asyncio.ensure_future(work) for work in (self._read(), self._write(), self._watch())]
        try:
            yield tasks[0], tasks[1]
        finally:
            for task in (*tasks, *self._tasks()):
                task.cancel()
            await asyncio.wait([*tasks, *self._tasks()], timeout=_FINISH_S)

    # In.

    async def _read(self) -> None:
        lane = BlockingLane("mcp stdin")
        with suppress(OSError):
            while data := await lane.run(lambda: os.read(self._source_fd, _READ_BYTES)):
                for body in self._framing.feed(data):
                    await self._take(body)
        for body in self._framing.feed(b"\n"):  # a last line without its end
            await self._take(body)

    async def _take(self, body: bytes | Oversize) -> None:
        try:
            if isinstance(body, Oversize):
                raise RpcError(PARSE_ERROR, f"Parse error: a message of {body.size} bytes is too large")
            messages = read_messages(body)
        except RpcError as exc:
            await self._outbox.put(failure(None, exc).body)
            return
        if body[:1] == b"[":
            self._start_batch(messages)
            return
        for message in messages:
            if (answer := self._receive(message, len(body))) is not None:
                await self._outbox.put(answer.body)

    def _receive(self, message: Message, size: int) -> Answer | None:
        """Starts what takes time; the answer where there is one at once."""
        if message.id is None or message.is_answer:
            self._hear(message)
            return None
        try:
            request = self._admit(message)
        except RpcError as exc:
            return failure(message.id if isinstance(message.id, str | int) else None, exc)
        self._start(request, size)
        return None

    def _admit(self, message: Message) -> Request:
        request = read_request(message, stateless=speaks_stateless, structured=self._structured)
        if request.stateless:
            check_envelope(request)
        elif request.method == "initialize":
            self._structured = negotiate(request.params.get("protocolVersion")) not in WORDS_ONLY
        if request.id in self._running:
            raise RpcError(INVALID_REQUEST, "Invalid Request: a request with this id is still being answered")
        if len(self._running) + len(self._batches) >= MAX_REQUESTS or self._held_bytes > _MAX_HELD_BYTES:
            raise RpcError(BUSY, "too many requests at once")
        return request

    def _hear(self, message: Message) -> None:
        id = cancelled_request(message)
        if id is not None and (task := self._running.get(id)) is not None:
            task.cancel()

    # What runs.

    def _start(self, request: Request, size: int) -> None:
        task = asyncio.ensure_future(self._answer(request))
        self._running[request.id] = task
        self._held_bytes += size

        def ended(_: object) -> None:
            self._held_bytes -= size
            self._running.pop(request.id, None)

        task.add_done_callback(ended)

    async def _answer(self, request: Request) -> None:
        answer = await self._server.answer(request, self._report)
        if request.method == "tools/list" and not request.stateless:
            self._listed = self._server.specs()
        await self._outbox.put(answer.body)

    def _report(self, notification: bytes) -> None:
        with suppress(asyncio.QueueFull):
            self._outbox.put_nowait(notification)

    def _start_batch(self, messages: Sequence[Message]) -> None:
        task = asyncio.ensure_future(self._answer_batch(messages))
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _answer_batch(self, messages: Sequence[Message]) -> None:
        """One array of answers for one array of requests, as 2025-03-26 has it. Its members run one after another."""
        answers = [answer.body for message in messages if (answer := await self._answer_member(message)) is not None]
        if answers:
            await self._outbox.put(b"[" + b",".join(answers) + b"]")

    async def _answer_member(self, message: Message) -> Answer | None:
        if message.id is None or message.is_answer:
            self._hear(message)
            return None
        try:
            return await self._server.answer(self._admit(message), self._report)
        except RpcError as exc:
            return failure(message.id if isinstance(message.id, str | int) else None, exc)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._running.values(), *self._batches]

    # Out.

    async def _write(self) -> None:
        """Until the other side stops reading for good."""
        lane = BlockingLane("mcp stdout")
        while True:
            data = self._framing.frame(await self._outbox.get())
            try:
                await lane.run(partial(_write_all, self._sink_fd, data))
            except OSError:
                return
            finally:
                self._outbox.task_done()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._watch_s)
            if self._listed is not None and (specs := self._server.specs()) != self._listed:
                self._listed = specs
                self._report(encode_notification("notifications/tools/list_changed"))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
