"""A TCP proxy that a test can cut: connections freeze, as when a cable is pulled, or break, as when a box goes down.

async with cut_proxy(port) as proxy:
    ... a client talks to 127.0.0.1:proxy.port ...
    proxy.freeze()      # nothing passes any more, and nobody is told; new connections hang
    proxy.freeze(sent=False)  # what is sent still arrives, only the answers are lost
    proxy.mend()        # new connections work; the frozen ones stay so, as after a change of route
    proxy.break_all()   # every connection is reset
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

CHUNK = 64 * 1024


class CutProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._frozen = False
        self._pairs: set[_Pair] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.swallowed = 0  # bytes that were lost on the way
        # Called with what a client sends, before it is passed on: a test may cut in the middle of something.
        self.on_sent: Callable[[bytes], None] = lambda data: None

    def freeze(self, *, sent: bool = True) -> None:
        self._frozen = True
        for pair in self._pairs:
            pair.frozen = True
            pair.still_sends = not sent

    def mend(self) -> None:
        self._frozen = False

    def break_all(self) -> None:
        for pair in list(self._pairs):
            pair.reset()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def ended(self) -> None:
        self.break_all()
        if self._serving:
            await asyncio.wait(self._serving, timeout=10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, upstream[1], frozen=self._frozen)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(pair, reader, upstream[1], sent=True))
                group.create_task(self._copy(pair, upstream[0], writer, sent=False))
        except* OSError:
            pass
        finally:
            self._pairs.discard(pair)
            pair.reset()

    async def _copy(
        self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, sent: bool
    ) -> None:
        while data := await reader.read(CHUNK):
            if sent:
                self.on_sent(data)
            if pair.frozen and not (sent and pair.still_sends):
                self.swallowed += len(data)
                continue
            writer.write(data)
            await writer.drain()
        if not pair.frozen:
            pair.reset()


class _Pair:
    def __init__(self, client: asyncio.StreamWriter, upstream: asyncio.StreamWriter, *, frozen: bool) -> None:
        self.frozen = frozen
        self.still_sends = False
        self._writers = (client, upstream)

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def cut_proxy(target_port: int) -> AsyncIterator[CutProxy]:
    proxy = CutProxy(target_port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.ended()
