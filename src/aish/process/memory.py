"""Gives memory back to the system after a request with a large body.

glibc keeps what was freed for the next allocations: after one message of 30 MB, 210 MB. `malloc_trim` gives free pages
back. It takes milliseconds, so it runs in a thread, once for all large requests that end within a second. On a busy
machine the last references go later, so it runs twice more.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from functools import cache

from aish.errors import AishError

log = logging.getLogger(__name__)

# For a request to let go of its last references, and for its records to be written.
_WAITS_S = (1.0, 4.0, 15.0)


class MemoryTrimmer:
    """`release` is called first. It drops what the application holds."""

    def __init__(self, release: Callable[[], Awaitable[None]]) -> None:
        self._release = release
        self._task: asyncio.Task[None] | None = None
        self._rounds = 0  # that are still to come

    def trim_soon(self) -> None:
        self._rounds = len(_WAITS_S)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._rounds:
            wait_s = _WAITS_S[-self._rounds]
            self._rounds -= 1
            await asyncio.sleep(wait_s)
            await self._trim()

    async def _trim(self) -> None:
        try:
            await self._release()
        except AishError as exc:
            log.warning("memory could not be released: %s", exc.message)
        gc.collect()
        if (trim := _find_trim()) is not None:
            await asyncio.to_thread(trim, 0)


@cache
def _find_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None with another C library."""
    import ctypes  # only needed after a large body

    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
