"""Ends a worker when the supervisor that started it ends: otherwise the worker would keep the port."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


@contextmanager
def terminate_with_parent() -> Iterator[None]:
    """Inside, the end of the parent sends SIGTERM to this process, which then shuts down in order. Does nothing in a
    process that is no worker."""
    parent, loop = parent_process(), asyncio.get_running_loop()
    if parent is None:
        yield
        return
    sentinel = parent.sentinel

    def end() -> None:
        loop.remove_reader(sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(sentinel, end)
    try:
        yield
    finally:
        loop.remove_reader(sentinel)
