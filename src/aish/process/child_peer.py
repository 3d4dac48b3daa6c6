"""A JSON-RPC peer that is read from a child's output, to its end. When the child goes, all who wait hear why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aish.errors import AishError, ConnectionLost
from aish.net.jsonrpc import Peer
from aish.process.child import ChildProcess

EXIT_WAIT_S = 1.0  # between the end of its output and its exit; longer means it only closed its output


class ChildReading:
    def __init__(self, child: ChildProcess, peer: Peer) -> None:
        self._child = child
        self._peer = peer
        self._gone: asyncio.Future[AishError] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        reading = asyncio.create_task(self._read(), name=f"reading {self._child.spec.title}")
        try:
            yield
        finally:
            reading.cancel()
            await self._peer.aclose()
            await asyncio.wait({reading})
        if not reading.cancelled():
            reading.result()  # a fault in what we do with messages must not go unnoticed

    async def wait_gone(self) -> AishError:
        """Returns why, once the child has gone by itself."""
        return await asyncio.shield(self._gone)

    async def _read(self) -> None:
        try:
            self._child.stdout.deliver_to(self._peer.feed)
            async for _ in self._child.stdout:
                pass  # everything was delivered; this is the end
            with suppress(TimeoutError):
                async with asyncio.timeout(EXIT_WAIT_S):
                    await self._child.wait()
        except asyncio.CancelledError:
            self._peer.close()
            raise
        finally:  # whatever happens, nobody waits for an answer that nobody reads
            self._peer.close(self._reason)
            self._gone.set_result(self._reason())

    def _reason(self) -> AishError:
        if self._child.returncode is not None:
            return self._child.exit_error()
        return ConnectionLost(f"{self._child.spec.title} closed its output but still runs")
