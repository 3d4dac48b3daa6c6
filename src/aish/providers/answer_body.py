"""The body of a streamed answer, and how long to wait for its next piece.

Before the first piece a backend may think as long as the deadline lets it: many send their headers at once and then
read a long prompt. Afterwards silence means that something is stuck. Once the answer is complete, what may still follow
is worth a moment only, and losing it costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from aish.errors import WireError
from aish.wire.http import Response


class AnswerBody(AsyncIterator[bytes]):
    """`middle` is the response while there is nothing to add to what it does: who asks it then asks for every piece."""

    def __init__(self, response: Response, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._begun = False
        self._complete = False
        self.middle: Response | None = None

    def complete(self, lag_s: float) -> None:
        """Nothing essential is missing any more; the rest has `lag_s` to arrive."""
        self._complete, self.middle = True, None
        self._response.limit_rest(lag_s)

    async def next_piece(self) -> bytes:
        """Empty at the end."""
        try:
            piece = await self._response.next_piece()
        except WireError:
            if self._complete:
                return b""
            raise
        if not self._begun:
            self._begun, self.middle = True, self._response
            self._response.limit_silence(self._idle_s)
        return piece

    async def __anext__(self) -> bytes:
        if piece := await self.next_piece():
            return piece
        raise StopAsyncIteration

    async def drain(self) -> None:
        """Read to the end, so that the connection can be used again."""
        while await self.next_piece():
            pass
