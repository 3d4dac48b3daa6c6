"""Runs a face's coroutine to its end; Ctrl-C and SIGTERM cancel it, so that everything it owns is closed in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

INTERRUPTED = 130
TERMINATED = 143


def run_until_done(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(code: int) -> None:
        received.append(code)
        task.cancel()

    loop = asyncio.get_running_loop()
    for name, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)):
        # Windows loops know no signal handlers; there Ctrl-C arrives as KeyboardInterrupt.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(name, stop, code)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return received[0]
