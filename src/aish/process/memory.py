"""Gives memory back to the system after a request with a large body.

glibc keeps what was freed for the next allocations: after one message of 30 MB, 210 MB. `malloc_trim` gives free pages
back. It takes milliseconds, so it runs in a thread, once for all large requests that end within a second. On a busy
machine the last references go later, so it runs twice more.

It does not reach the free end of a thread's heap. glibc gives that back itself, but only from a threshold on that grows
with the largest block that was freed, up to 64 MB. `fix_malloc_thresholds` keeps it where it is.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from aish.errors import AishError

log = logging.getLogger(__name__)

# For a request to let go of its last references, and for its records to be written.
_WAITS_S = (1.0, 4.0, 15.0)

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_OWN_MAPPING_BYTES = 1024 * 1024  # rare, and a system call is little beside the work on so many bytes
_KEPT_BYTES = 2 * _OWN_MAPPING_BYTES  # glibc's own ratio


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
        if (trim := _find_function("malloc_trim")) is not None:
            await asyncio.to_thread(trim, 0)


def fix_malloc_thresholds() -> None:
    """A large block gets a mapping of its own, which ends when the block is freed. For the start of a server, before
    its threads. Does nothing with another C library than glibc."""
    if (set_option := _find_function("mallopt")) is not None:
        set_option(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)


@cache
def _find_function(name: str) -> Callable[..., Any] | None:
    """A function of glibc; None with another C library."""
    import ctypes  # takes milliseconds, which only servers pay

    try:
        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
