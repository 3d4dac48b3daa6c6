"""What Ctrl-C does for a while."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

from aish.faces import signals


@contextlib.contextmanager
def on_interrupt(react: Callable[[], object]) -> Iterator[None]:
    """While inside, Ctrl-C does this instead of ending aish; after it, what it did before."""
    loop = asyncio.get_running_loop()
    before = signals.interrupt_handler()
    try:
        loop.add_signal_handler(signal.SIGINT, react)
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        if before is None:
            loop.remove_signal_handler(signal.SIGINT)
        else:
            loop.add_signal_handler(signal.SIGINT, before)
