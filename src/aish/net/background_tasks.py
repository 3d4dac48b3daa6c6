"""Runs small tasks that nothing waits for: a bounded number at a time, each with a deadline, none outliving the
owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aish.errors import AishError


class BackgroundTasks:
    def __init__(self, *, max_tasks: int = 64, timeout_s: float = 5.0) -> None:
        self._max_tasks = max_tasks
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def run(self, do: Callable[[], Awaitable[None]]) -> bool:
        """Starts a task. Whether there was room for it. An AishError that it raises is ignored."""
        if self._closed or len(self._tasks) >= self._max_tasks:
            return False
        task = asyncio.get_running_loop().create_task(self._quietly(do))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def cancel(self) -> None:
        """Cancels all tasks and accepts no more."""
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
