"""Waiting for what happens elsewhere: in another process, in a server. Always with a deadline."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def eventually(
    predicate: Callable[[], object | Awaitable[object]], timeout_s: float = 5.0, *, every_s: float = 0.02
) -> None:
    """Return once `predicate` is true; fail when it is not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {_shown(predicate)}"
        await asyncio.sleep(every_s)


def _shown(predicate: Callable[[], object]) -> str:
    try:
        return inspect.getsource(predicate).strip()
    except (OSError, TypeError):
        return repr(predicate)
