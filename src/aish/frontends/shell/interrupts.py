"""What Ctrl-C does for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from aish.frontends import signals


@contextlib.contextmanager
def on_interrupt(react: Callable[[], object]) -> Iterator[None]:
    """While inside, Ctrl-C does this instead of ending aish; after it, what it did before."""
    before = signals.interrupt_handler()
    signals.set_interrupt_handler(react)
    try:
        yield
    finally:
        signals.set_interrupt_handler(before)


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Around a prompt_toolkit prompt: it takes Ctrl-C for itself and leaves it to nobody at its end."""
    try:
        yield
    finally:
        signals.set_interrupt_handler(signals.interrupt_handler())


def was_stopped(doing: asyncio.Future[Any]) -> bool:
    """Whether what raised CancelledError was this alone, and not all around it: aish itself ends then."""
    task = asyncio.current_task()
    return doing.cancelled() and not (task and task.cancelling())
