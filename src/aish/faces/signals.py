"""Runs a face's coroutine to its end; Ctrl-C and SIGTERM cancel it, so that everything it owns is closed in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

INTERRUPTED = 130
TERMINATED = 143


_interrupt: Callable[[], None] | None = None


def interrupt_handler() -> Callable[[], None] | None:
    """What Ctrl-C does while a face runs; for a face that changes it for a while and puts it back."""
    return _interrupt


def run_until_done(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(code: int) -> None:
        received.append(code)
        task.cancel()

    global _interrupt
    _interrupt = partial(stop, INTERRUPTED)
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
