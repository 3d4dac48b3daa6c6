"""The line that says what is waited for: drawn below the reply, and wiped before anything else is written.

It is drawn only where the cursor stands at the start of a line, so wiping it leaves no trace. A tick decides; whoever
owns the line sees to it that ticks come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aish.frontends.shell.render.tool_frames import duration, one_line
from aish.frontends.terminal import Output

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EVERY_S = 0.1
# A wait shorter than this is not felt. Between two lines of a reply it may be longer: there the text is sign enough.
PATIENCE_S = 0.4
WRITING_PATIENCE_S = 1.5
# A rate over less than this says nothing.
_MIN_RATE_S = 1.0


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

    def waits_for(self, subject: str, *, patience_s: float = PATIENCE_S) -> None:
        """What the line says from now on. The time goes on when it is what it said before."""
        if subject != self._subject:
            self._since = self._clock()
            self._tokens = 0
        self._subject, self._patience_s = subject, patience_s

    def rest(self) -> None:
        """Nothing is waited for."""
        self.wipe()
        self._subject = ""

    def count(self, tokens: int = 1) -> None:
        """Tokens have come that are not shown."""
        self._tokens += tokens

    @property
    def waited_s(self) -> float:
        return self._clock() - self._since

    def wipe(self) -> None:
        """To be called before anything is written."""
        if self._drawn:
            self._output.end_progress()
            self._drawn = False
        self._quiet_since = self._clock()

    def tick(self) -> None:
        if not self._subject or not self._output.at_line_start:
            return
        if self._clock() - self._quiet_since < self._patience_s:
            return
        frame = _FRAMES[self._ticks % len(_FRAMES)]
        self._ticks += 1
        self._drawn = True
        # One column less than there are: a full line would make some terminals scroll.
        self._output.progress(one_line(f"{frame} {self._subject}, {self._said()}", self._columns() - 1))

    def _said(self) -> str:
        waited_s = self.waited_s
        said = f"{waited_s:.1f} s" if waited_s < 10 else duration(waited_s)
        if self._tokens and waited_s >= _MIN_RATE_S:
            return f"{said}, {self._tokens / waited_s:.0f} tokens/s"
        return said


class Ticking:
    """Ticks while inside; `leave` is called on the way out, whatever the reason."""

    def __init__(self, line: WaitLine, leave: Callable[[], None]) -> None:
        self._line = line
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task:
            self._task.cancel()
        self._line.rest()
        self._leave()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self._line.tick()
