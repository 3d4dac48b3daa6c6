"""Small things done without anybody waiting for them: few at a time, each with a deadline, none outliving its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aish.errors import AishError


class Errands:
    def __init__(self, *, at_once: int = 64, timeout_s: float = 5.0) -> None:
        self._at_once = at_once
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def run(self, do: Callable[[], Awaitable[None]]) -> bool:
        """Whether it was taken on. It may fail with an AishError, and nobody will know."""
        if self._closed or len(self._tasks) >= self._at_once:
            return False
        task = asyncio.get_running_loop().create_task(self._quietly(do))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def cancel(self) -> None:
        """End what runs, and take on nothing more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        self.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _quietly(self, do: Callable[[], Awaitable[None]]) -> None:
        with suppress(AishError, TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                await do()
