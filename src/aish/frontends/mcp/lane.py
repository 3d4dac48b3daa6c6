"""Calls that may block for ever, one after another in a thread of their own.

For stdin and stdout: they may be pipes, terminals or files, and no one asynchronous way serves all three. The thread is
left behind when the process ends, so that a reader nobody writes to holds nothing up.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class BlockingLane:
    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, do: Callable[[], T]) -> T:
        """What `do` returns or raises. Cancelling leaves it running to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                deliver: tuple[Callable[..., None], Any] = _resolve, do()
            except OSError as exc:
                deliver = _reject, exc
            with suppress(RuntimeError):  # the loop has gone meanwhile
                loop.call_soon_threadsafe(deliver[0], done, deliver[1])

        self._jobs.put(job)
        return await done

    def _work(self) -> None:
        while True:
            self._jobs.get()()


def _resolve(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _reject(done: asyncio.Future[Any], error: OSError) -> None:
    if not done.done():
        done.set_exception(error)
