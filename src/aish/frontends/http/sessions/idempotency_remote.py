"""A request that is being answered by another process: waited for, as long as that process lives.

Its reply lies in the store once it is whole, so whoever asks again with the same key is given it from there, at once
and not as it comes. A part of `idempotent`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from aish.frontends.asgi import Exchange
from aish.frontends.http.server.http_errors import Problem
from aish.frontends.http.server.service import Service

_LOOK_S = 0.25
# To write down a turn that has used up its time.
_GRACE_S = 60.0


class Elsewhere:
    def __init__(self, service: Service, kind: str) -> None:
        self._service = service
        self._kind = kind

    async def changed(self, exchange: Exchange, id: str, body: bytes, runner: str) -> bytes | None:
        """What is kept under the key once it is no longer `body`; None if it stays so: its process died or takes longer
        than a turn may, or the client who waits has gone. Raises Problem if it was given up and the key is free."""
        gone = asyncio.ensure_future(exchange.gone())
        due_s = time.monotonic() + self._service.limits.wall_s + _GRACE_S
        try:
            while not gone.done() and time.monotonic() < due_s and self._is_answered_by(runner):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await asyncio.shield(gone)
                found = await self._service.store.find(self._kind, id)
                if found is None:
                    raise Problem(
                        503, "the request failed where it was being answered", headers=[(b"retry-after", b"1")]
                    )
                if found.body != body:
                    return found.body
            return None
        finally:
            gone.cancel()

    def _is_answered_by(self, runner: str) -> bool:
        owners = self._service.engine.owners
        return runner not in ("", owners.me) and owners.is_alive(runner) and not self._service.draining
