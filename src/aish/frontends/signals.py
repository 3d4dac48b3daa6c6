"""Runs the main coroutine of a frontend. Ctrl-C and SIGTERM cancel it, so that everything it owns is closed in
order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

INTERRUPTED = 130
TERMINATED = 143


_interrupt: Callable[[], object] | None = None


def interrupt_handler() -> Callable[[], object] | None:
    """The current handler of Ctrl-C."""
    return _interrupt


def set_interrupt_handler(react: Callable[[], object] | None) -> None:
    """Sets the handler of Ctrl-C; None removes it."""
    global _interrupt
    _interrupt = react
    loop = asyncio.get_running_loop()
    # Event loops on Windows have no signal handlers; Ctrl-C raises KeyboardInterrupt there.
    with contextlib.suppress(NotImplementedError):
        if react is None:
            loop.remove_signal_handler(signal.SIGINT)
        else:
            loop.add_signal_handler(signal.SIGINT, react)


def run_until_done(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(code: int) -> None:
        received.append(code)
        task.cancel()

    set_interrupt_handler(partial(stop, INTERRUPTED))
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop, TERMINATED)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return received[0]
