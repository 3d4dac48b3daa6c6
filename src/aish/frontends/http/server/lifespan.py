"""The life of the server: opens the service, reloads the configuration on SIGHUP, and closes everything.

Each worker process does this for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

from aish.errors import AishError
from aish.frontends.asgi import Receive, Send
from aish.frontends.http.server.logs import log_to
from aish.frontends.http.server.service import Service

log = logging.getLogger(__name__)


async def run_lifespan(parts: Sequence[AbstractAsyncContextManager[Any]], receive: Receive, send: Send) -> None:
    """ASGI's lifespan protocol: enters the parts in order at startup, and leaves them at shutdown."""
    async with AsyncExitStack() as stack:
        await receive()
        # The loop would keep a list of all async generators in order to close those that are abandoned. Ours are closed
        # by the code that begins them, and a chat request has several.
        sys.set_asyncgen_hooks(firstiter=None)
        try:
            for part in parts:
                await stack.enter_async_context(part)
        except AishError as exc:
            why = f"{exc.message} ({exc.hint})" if exc.hint else exc.message
            await send({"type": "lifespan.startup.failed", "message": why})
            return
        await send({"type": "lifespan.startup.complete"})
        # A server that has to end quickly cancels this; the parts are closed all the same.
        with suppress(asyncio.CancelledError):
            await receive()
    await send({"type": "lifespan.shutdown.complete"})


class ReloadOnSignal:
    """A context in which SIGHUP reads the configuration anew. If the new one is faulty, the old one stays."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._task: asyncio.Task[None] | None = None
        self._requested = False

    async def __aenter__(self) -> ReloadOnSignal:
        # Windows has neither the signal nor its handlers; only the main thread may handle signals.
        with contextlib.suppress(NotImplementedError, AttributeError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError, AttributeError, RuntimeError, ValueError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def reload(self) -> None:
        """Starts a reload. A signal during a reload starts another one: the file may have changed since it was read."""
        self._requested = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        while self._requested:
            self._requested = False
            try:
                runtime = await asyncio.to_thread(self._service.runtime.reload)
                await self._service.reload(runtime)
            except AishError as exc:
                log.error("the configuration was not taken, the old one stays: %s", exc.message)
            else:
                log_to(runtime.config.log, runtime.redact_text)  # it may know more secrets now
                print("aish: the configuration was read anew", file=sys.stderr, flush=True)
