"""`aish mcp serve` and its transport: JSON-RPC lines on two file descriptors.

`serve` reads until the input ends or the output breaks. Then running requests have a moment to finish before they are
cancelled. Requests run concurrently; responses and notifications are written in the order in which they were made.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from aish.frontends.mcp.protocol import McpResponse, ToolServer, error_response
from aish.frontends.mcp.requests import (
    BUSY,
    TEXT_ONLY,
    Request,
    cancelled_request,
    check_envelope,
    negotiate,
    read_request,
    read_rpc_messages,
    speaks_stateless,
)
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.net.framing import NewlineFraming, Oversize
from aish.net.jsonrpc_message import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, encode_notification
from aish.types.tools import ToolSpec

T = TypeVar("T")

_READ_BYTES = 64 * 1024
MAX_REQUESTS = 1024  # in progress, most of them waiting for a free slot
_MAX_PENDING_BYTES = 64 * 1024 * 1024  # of requests in progress
_MAX_UNWRITTEN = 1024  # messages for a client that does not read; then requests wait and notifications are dropped
# Clients close our input and wait about two seconds before they send SIGTERM.
_FINISH_S = 1.0
_WATCH_S = 1.0  # how often the list of tools is checked for changes
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ALL = ["*"]


class BlockingThread:
    """Runs blocking calls one by one in a thread.

    For stdin and stdout: they may be pipes, terminals or files, and no asynchronous API works for all three. The thread
    is a daemon, so a call that blocks forever does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns, or raises its OSError. If cancelled, `work` still runs to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                deliver: tuple[Callable[..., None], Any] = _set_result, work()
            except OSError as exc:
                deliver = _set_error, exc
            with suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(deliver[0], done, deliver[1])

        self._jobs.put(job)
        return await done

    def _work(self) -> None:
        while True:
            self._jobs.get()()


def _set_result(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _set_error(done: asyncio.Future[Any], error: OSError) -> None:
    if not done.done():
        done.set_exception(error)


class StdioServer:
    def __init__(self, server: ToolServer, *, source_fd: int, sink_fd: int, watch_s: float = _WATCH_S) -> None:
        self._server = server
        self._source_fd = source_fd
        self._sink_fd = sink_fd
        self._watch_s = watch_s
        self._framing = NewlineFraming()
        self._unwritten: asyncio.Queue[bytes] = asyncio.Queue(_MAX_UNWRITTEN)
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._structured = True  # the client's revision has structured results
        self._pending_bytes = 0
        self._batches: set[asyncio.Task[None]] = set()
        self._listed: Sequence[ToolSpec] | None = None  # the list that the client has; None if it has not asked

    async def serve(self) -> None:
        async with self._background() as (reading, writing):
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            if tasks := self._tasks():
                await asyncio.wait(tasks, timeout=_FINISH_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FINISH_S):
                    await self._unwritten.join()

    @asynccontextmanager
    async def _background(self) -> AsyncIterator[tuple[asyncio.Future[None], asyncio.Future[None]]]:
        """Runs the tasks that read and write; on leaving, all tasks are cancelled."""
        tasks = [asyncio.ensure_future(work) for work in (self._read(), self._write(), self._watch())]
        try:
            yield tasks[0], tasks[1]
        finally:
            for task in (*tasks, *self._tasks()):
                task.cancel()
            await asyncio.wait([*tasks, *self._tasks()], timeout=_FINISH_S)

    # Input.

    async def _read(self) -> None:
        thread = BlockingThread("mcp stdin")
        with suppress(OSError):
            while data := await thread.run(lambda: os.read(self._source_fd, _READ_BYTES)):
                for body in self._framing.feed(data):
                    await self._take(body)
        for body in self._framing.feed(b"\n"):  # a last line without its end
            await self._take(body)

    async def _take(self, body: bytes | Oversize) -> None:
        try:
            if isinstance(body, Oversize):
                raise RpcError(PARSE_ERROR, f"Parse error: a message of {body.size} bytes is too large")
            messages = read_rpc_messages(body)
        except RpcError as exc:
            await self._unwritten.put(error_response(None, exc).body)
            return
        if body[:1] == b"[":
            self._start_batch(messages)
            return
        for message in messages:
            if (answer := self._receive(message, len(body))) is not None:
                await self._unwritten.put(answer.body)

    def _receive(self, message: Message, size: int) -> McpResponse | None:
        """Starts a request. Returns the response if it is known at once."""
        if message.id is None or message.is_response:
            self._handle_notification(message)
            return None
        try:
            request = self._admit(message)
        except RpcError as exc:
            return error_response(message.id, exc)
        self._start(request, size)
        return None

    def _admit(self, message: Message) -> Request:
        request = read_request(message, stateless=speaks_stateless, structured=self._structured)
        if request.stateless:
            check_envelope(request)
        elif request.method == "initialize":
            self._structured = negotiate(request.params.get("protocolVersion")) not in TEXT_ONLY
        if request.id in self._running:
            raise RpcError(INVALID_REQUEST, "Invalid Request: a request with this id is still being answered")
        if len(self._running) + len(self._batches) >= MAX_REQUESTS or self._pending_bytes > _MAX_PENDING_BYTES:
            raise RpcError(BUSY, "too many requests at once")
        return request

    def _handle_notification(self, message: Message) -> None:
        id = cancelled_request(message)
        if id is not None and (task := self._running.get(id)) is not None:
            task.cancel()

    # Running requests.

    def _start(self, request: Request, size: int) -> None:
        task = asyncio.ensure_future(self._answer(request))
        self._running[request.id] = task
        self._pending_bytes += size

        def on_end(_: object) -> None:
            self._pending_bytes -= size
            self._running.pop(request.id, None)

        task.add_done_callback(on_end)

    async def _answer(self, request: Request) -> None:
        answer = await self._server.answer(request, self._report)
        if request.method == "tools/list" and not request.stateless:
            self._listed = self._server.specs()
        await self._unwritten.put(answer.body)

    def _report(self, notification: bytes) -> None:
        with suppress(asyncio.QueueFull):
            self._unwritten.put_nowait(notification)

    def _start_batch(self, messages: Sequence[Message]) -> None:
        task = asyncio.ensure_future(self._answer_batch(messages))
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _answer_batch(self, messages: Sequence[Message]) -> None:
        """Answers a batch of revision 2025-03-26 with one array. Its members run one by one."""
        answers = [answer.body for message in messages if (answer := await self._answer_member(message)) is not None]
        if answers:
            await self._unwritten.put(b"[" + b",".join(answers) + b"]")

    async def _answer_member(self, message: Message) -> McpResponse | None:
        if message.id is None or message.is_response:
            self._handle_notification(message)
            return None
        try:
            return await self._server.answer(self._admit(message), self._report)
        except RpcError as exc:
            return error_response(message.id, exc)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._running.values(), *self._batches]

    # Output.

    async def _write(self) -> None:
        """Writes until the other side closes its end."""
        thread = BlockingThread("mcp stdout")
        while True:
            data = self._framing.frame(await self._unwritten.get())
            try:
                await thread.run(partial(_write_all, self._sink_fd, data))
            except OSError:
                return
            finally:
                self._unwritten.task_done()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._watch_s)
            if self._listed is not None and (specs := await self._server.refresh()) != self._listed:
                self._listed = specs
                self._report(encode_notification("notifications/tools/list_changed"))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    """Offers the tools to the program that started aish, until stdin ends or a signal arrives. Only the protocol may be
    on stdout: anything else that this process or its children print goes to stderr."""
    source_fd, sink_fd = _redirect_standard_streams()
    return run_until_done(_serve(arguments.tools or _ALL, runtime, source_fd, sink_fd))


async def _serve(tools: list[str], runtime: Runtime, source_fd: int, sink_fd: int) -> int:
    async with runtime.engine() as engine:
        # Most clients ask for the list once, right away. Tools of servers that take longer are announced later.
        connecting = asyncio.ensure_future(runtime.wait_for_mcp(runtime.config.mcp.wait_s))

        async def wait_for_tools() -> None:
            await asyncio.wait({connecting})
            if tools != _ALL and not server.specs():
                print(f"aish: there is no tool that {' '.join(tools)} names", file=sys.stderr, flush=True)

        try:
            server = ToolServer(engine, tools=tools, list_changed=True, wait_for_tools=wait_for_tools)
            await StdioServer(server, source_fd=source_fd, sink_fd=sink_fd).serve()
        finally:
            connecting.cancel()
    return 0


def _redirect_standard_streams() -> tuple[int, int]:
    """Moves stdin and stdout to new descriptors, which are returned. fd 0 becomes /dev/null, and fd 1 becomes
    stderr."""
    sys.stdout.flush()
    source_fd, sink_fd = os.dup(_STDIN), os.dup(_STDOUT)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, _STDIN)
    os.close(devnull)
    os.dup2(_STDERR, _STDOUT)
    return source_fd, sink_fd
