"""The body of a streamed answer, and how long to wait for its next piece.

Before the first piece a backend may think as long as the deadline lets it: many send their headers at once and then
read a long prompt. Afterwards silence means that something is stuck. Once the answer is complete, what may still follow
is worth a moment only, and losing it costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from aish.net.http.client import Response


class AnswerBody(AsyncIterator[bytes]):
    def __init__(self, response: Response, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._begun = False

    def complete(self, lag_s: float) -> None:
        """Nothing essential is missing any more; the rest has `lag_s` to arrive."""
        self._response.make_rest_optional(lag_s)

    async def __anext__(self) -> bytes:
        piece = await self._response.__anext__()
        if not self._begun:
            self._begun = True
            self._response.limit_silence(self._idle_s)
        return piece
