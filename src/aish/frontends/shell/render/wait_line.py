"""A line below the reply that says what is waited for. It is erased before anything else is written.

It is drawn only if the cursor is at the start of a line, so that erasing it leaves no trace. `tick` draws it when it is
due; `Ticker` calls `tick`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.render.tool_frames import fit_on_one_line, format_duration
from aish.frontends.terminal import Output

# A shorter wait needs no sign of life.
PATIENCE_S = 0.4
# Between two lines of a reply the text itself is a sign of life.
WRITING_PATIENCE_S = 1.5
# A rate over a shorter time is not meaningful.
_MIN_RATE_S = 1.0
_TICK_S = 0.1
_SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class WaitLine:
    def __init__(
        self, output: Output, columns: Callable[[], int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._output = output
        self._columns = columns
        self._clock = clock
        self._subject = ""
        self._patience_s = PATIENCE_S
        self._since = self._quiet_since = clock()
        self._tokens = 0
        self._ticks = 0
        self._drawn = False

    def set_subject(self, subject: str, *, patience_s: float = PATIENCE_S) -> None:
        """What is waited for from now on. The time restarts if the subject has changed."""
        if subject != self._subject:
            self._since = self._clock()
            self._tokens = 0
        self._subject, self._patience_s = subject, patience_s

    def clear(self) -> None:
        """Erases the line: nothing is waited for."""
        self.wipe()
        self._subject = ""

    def count(self, tokens: int = 1) -> None:
        """Counts tokens that arrived and are not shown."""
        self._tokens += tokens

    @property
    def waited_s(self) -> float:
        return self._clock() - self._since

    def wipe(self) -> None:
        """Erases the line. Call it before anything is written."""
        if self._drawn:
            self._output.end_progress()
            self._drawn = False
        self._quiet_since = self._clock()

    def tick(self) -> None:
        if not self._subject or not self._output.at_line_start:
            return
        if self._clock() - self._quiet_since < self._patience_s:
            return
        frame = _SPINNER_FRAMES[self._ticks % len(_SPINNER_FRAMES)]
        self._ticks += 1
        self._drawn = True
        # One column less than the width: a full line makes some terminals scroll.
        self._output.progress(fit_on_one_line(f"{frame} {self._subject}, {self._progress()}", self._columns() - 1))

    def _progress(self) -> str:
        waited_s = self.waited_s
        time_text = f"{waited_s:.1f} s" if waited_s < 10 else format_duration(waited_s)
        if self._tokens and waited_s >= _MIN_RATE_S:
            return f"{time_text}, {self._tokens / waited_s:.0f} tokens/s"
        return time_text


def waiting_for(output: Output, subject: str) -> Ticker:
    """Shows on stderr what is waited for, while inside."""
    line = WaitLine(output, columns_of(sys.stderr))
    line.set_subject(subject)
    return Ticker(line)


class Ticker:
    """Ticks the line while inside; on the way out it clears the line and calls `on_leave`."""

    def __init__(self, line: WaitLine, on_leave: Callable[[], None] = lambda: None) -> None:
        self._line = line
        self._on_leave = on_leave
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task:
            self._task.cancel()
        self._line.clear()
        self._on_leave()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._line.tick()
