"""The body of a streamed answer, and how long to wait for its next piece.

Before the first piece a backend may think as long as the deadline lets it: many send their headers at once and then
read a long prompt. Afterwards silence means that something is stuck. Once the answer is complete, what may still follow
is worth a moment only, and losing it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aish.errors import WireError, WireTimeout
from aish.wire.http import Response


class AnswerBody(AsyncIterator[bytes]):
    def __init__(self, response: Response, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._complete = False
        self._rest_due_s = 0.0

    def complete(self, lag_s: float) -> None:
        """Nothing essential is missing any more; the rest has `lag_s` to arrive."""
        self._complete = True
        self._rest_due_s = self._loop.time() + lag_s

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._due_s()):
                piece = await anext(self._response)
        except (TimeoutError, WireError) as exc:
            if self._complete:
                raise StopAsyncIteration from None
            if isinstance(exc, TimeoutError):
                text = f"it fell silent for {self._idle_s:g} s in the middle of its answer"
                raise WireTimeout(text, phase="idle") from exc
            raise
        self._begun = True
        return piece

    async def drain(self) -> None:
        """Read to the end, so that the connection can be used again."""
        async for _ in self:
            pass

    def _due_s(self) -> float | None:
        if self._complete:
            return self._rest_due_s
        return self._loop.time() + self._idle_s if self._begun else None
