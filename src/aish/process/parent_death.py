"""A worker ends with the supervisor that started it, however that ended: or it would keep the port for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


@contextmanager
def ends_with_parent() -> Iterator[None]:
    """While it lasts, the end of our parent is a SIGTERM to us: what is under way is drained as always. Nothing in a
    process that is no worker."""
    parent, loop = parent_process(), asyncio.get_running_loop()
    if parent is None:
        yield
        return
    place = parent.sentinel

    def end() -> None:
        loop.remove_reader(place)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(place, end)
    try:
        yield
    finally:
        loop.remove_reader(place)
