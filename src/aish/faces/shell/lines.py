"""Lines typed by a person, read without blocking the loop.

The reading thread is a daemon: a person who never presses return must not keep aish from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading


class LineSource:
    async def read(self, prompt: str) -> str | None:
        """One line without its end; None when there are no more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str | None] = loop.create_future()
        threading.Thread(target=self._read, args=(prompt, loop, future), name="aish-input", daemon=True).start()
        return await future

    def _read(self, prompt: str, loop: asyncio.AbstractEventLoop, future: asyncio.Future[str | None]) -> None:
        try:
            line: str | None = input(prompt)
        except (EOFError, UnicodeDecodeError, OSError):
            line = None
        # The loop may be gone by the time a line comes: then nobody waits for it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, future, line)


def _settle(future: asyncio.Future[str | None], line: str | None) -> None:
    if not future.done():
        future.set_result(line)
