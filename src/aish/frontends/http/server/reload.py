"""SIGHUP: the configuration is read anew. Requests under way keep the old one, and so do all if the new one is faulty.

Every process of a server does this for itself, while it takes requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys

from aish.errors import AishError
from aish.frontends.http.server.logs import log_to
from aish.frontends.http.server.service import Service

log = logging.getLogger(__name__)


class Reloading:
    """A context in which the signal is heard, where there is one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._task: asyncio.Task[None] | None = None
        self._asked = False

    async def __aenter__(self) -> Reloading:
        # Neither the signal nor its handlers on Windows; none but the main thread may handle any.
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
        """Once more where it is being read: that may have been before what is meant now was written."""
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        while self._asked:
            self._asked = False
            try:
                runtime = await asyncio.to_thread(self._service.runtime.reloaded)
                await self._service.reload(runtime)
            except AishError as exc:
                log.error("the configuration was not taken, the old one stays: %s", exc.message)
            else:
                log_to(runtime.config.log, runtime.redacted)  # it may know more secrets now
                print("aish: the configuration was read anew", file=sys.stderr, flush=True)
