"""Ending the line that runs, so that the shell waits again."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from aish.process.pty import Pty
from aish.tools.bash.process import Life

# Politely, firmly, at once; then once more for whatever the line started next.
_LADDER = ((signal.SIGINT, 0.5), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0), (signal.SIGKILL, 2.0))
_KILLED_S = 5.0


async def stop(life: Life, pty: Pty) -> None:
    """Until the shell waits again. One that cannot be brought to that is killed; another will follow."""
    for number, wait_s in _LADDER:
        pty.signal_foreground(number if pty.foreground_group() != pty.pid else signal.SIGINT)
        if number is not signal.SIGINT:  # bash would go on with the rest of the line
            pty.signal_child(signal.SIGINT)
        try:
            async with asyncio.timeout(wait_s):
                await life.until_waiting()
                return
        except TimeoutError:
            continue
    pty.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_S):
            await life.until_waiting()
