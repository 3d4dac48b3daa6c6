"""Runs the main coroutine of a frontend. Ctrl-C and SIGTERM cancel it, so that everything it owns is closed in
order. What Ctrl-C does can be replaced while a block of code runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

INTERRUPTED = 130
TERMINATED = 143


_interrupt: Callable[[], object] | None = None


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
    return asyncio.run(_run_guarded(work))


async def _run_guarded(work: Coroutine[Any, Any, int]) -> int:
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


@contextlib.contextmanager
def on_interrupt(react: Callable[[], object]) -> Iterator[None]:
    """Inside, Ctrl-C calls `react` instead of ending aish. Afterwards the handler from before is back."""
    before = _interrupt
    set_interrupt_handler(react)
    try:
        yield
    finally:
        set_interrupt_handler(before)


@contextlib.contextmanager
def restored_interrupt_handler() -> Iterator[None]:
    """Around a prompt_toolkit prompt, which sets its own handler for Ctrl-C and removes it at its end."""
    try:
        yield
    finally:
        set_interrupt_handler(_interrupt)


def is_stopped_alone(work: asyncio.Future[Any]) -> bool:
    """Whether only this work was cancelled. When aish ends, the task that waits for it is cancelled, too."""
    task = asyncio.current_task()
    return work.cancelled() and not (task and task.cancelling())
