"""Reads a child's output into a JSON-RPC peer. When the child ends, pending requests fail with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aish.errors import AishError, ConnectionLost
from aish.net.jsonrpc import Peer
from aish.process.child import ChildProcess

EXIT_WAIT_S = 1.0  # from the end of its output to its exit; after that it has only closed its output


class ChildPeerReader:
    def __init__(self, child: ChildProcess, peer: Peer) -> None:
        self._child = child
        self._peer = peer
        self._closed: asyncio.Future[AishError] = asyncio.get_running_loop().create_future()

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
            reading.result()  # raises if handling a message failed

    async def wait_closed(self) -> AishError:
        """Waits until the child has ended by itself. Returns the reason."""
        return await asyncio.shield(self._closed)

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
        finally:  # no request may wait for a response that is never read
            self._peer.close(self._reason)
            self._closed.set_result(self._reason())

    def _reason(self) -> AishError:
        if self._child.returncode is not None:
            return self._child.exit_error()
        return ConnectionLost(f"{self._child.spec.title} closed its output but still runs")
