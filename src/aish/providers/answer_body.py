"""The body of a streamed answer, and how long to wait for its next piece.

Before the first piece a backend may think as long as the deadline lets it: many send their headers at once and then
read a long prompt. Afterwards silence means that something is stuck. Once the answer is complete, what may still follow
is worth a moment only, and losing it costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from aish.errors import WireError
from aish.wire.http import Response


class AnswerBody(AsyncIterator[bytes]):
    def __init__(self, response: Response, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._begun = False
        self._complete = False

    def complete(self, lag_s: float) -> None:
        """Nothing essential is missing any more; the rest has `lag_s` to arrive."""
        self._complete = True
        self._response.limit_rest(lag_s)

    def __anext__(self) -> Awaitable[bytes]:
        """In the middle of an answer there is nothing to add to what the response does."""
        return self._response.__anext__() if self._begun and not self._complete else self._at_either_end()

    async def _at_either_end(self) -> bytes:
        try:
            piece = await self._response.__anext__()
        except WireError:
            if self._complete:
                raise StopAsyncIteration from None
            raise
        if not self._begun:
            self._begun = True
            self._response.limit_silence(self._idle_s)
        return piece

    async def drain(self) -> None:
        """Read to the end, so that the connection can be used again."""
        async for _ in self:
            pass
