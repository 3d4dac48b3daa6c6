"""Sets what Ctrl-C does while a block of code runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from aish.frontends import signals


@contextlib.contextmanager
def on_interrupt(react: Callable[[], object]) -> Iterator[None]:
    """Inside, Ctrl-C calls `react` instead of ending aish. Afterwards the handler from before is back."""
    before = signals.interrupt_handler()
    signals.set_interrupt_handler(react)
    try:
        yield
    finally:
        signals.set_interrupt_handler(before)


@contextlib.contextmanager
def restored_interrupt_handler() -> Iterator[None]:
    """Around a prompt_toolkit prompt, which sets its own handler for Ctrl-C and removes it at its end."""
    try:
        yield
    finally:
        signals.set_interrupt_handler(signals.interrupt_handler())


def is_stopped_alone(work: asyncio.Future[Any]) -> bool:
    """Whether only this work was cancelled, and not the task that waits for it, which happens when aish ends."""
    task = asyncio.current_task()
    return work.cancelled() and not (task and task.cancelling())
