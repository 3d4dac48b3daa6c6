"""A line below the reply that says what is waited for. It is erased before anything else is written.

Lines of a running tool's output may stand above it. In the midst of a line of text, only the time is drawn behind the
text, if the answer has stalled. `tick` draws what is due; `Ticker` calls `tick`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.render.text_width import width_of
from aish.frontends.shell.render.tool_frames import fit_on_one_line, format_duration
from aish.frontends.terminal import Output

# A shorter wait needs no sign of life.
PATIENCE_S = 0.4
# Between two lines of a reply the text itself is a sign of life.
WRITING_PATIENCE_S = 1.5
# Without a token for so long, an answer has stalled.
STALL_S = 2.0
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
        self._tail: Sequence[str] = ()
        self._widths: list[int] = []  # of the lines that are drawn
        self._has_suffix = False
        self._show_held: Callable[[], int | None] = lambda: None

    def set_stall_handler(self, show_held: Callable[[], int | None]) -> None:
        """`show_held` shows what is held back of the text, and returns the column behind it, or None."""
        self._show_held = show_held

    def set_tail(self, lines: Sequence[str]) -> None:
        """The lines above: the end of what running tools have printed."""
        self._tail = lines

    def set_subject(self, subject: str, *, patience_s: float = PATIENCE_S) -> None:
        """What is waited for from now on. The time restarts if the subject has changed."""
        if subject != self._subject:
            self._since = self._clock()
            self._tokens = 0
        self._subject, self._patience_s = subject, patience_s

    def clear(self) -> None:
        """Erases the line: nothing is waited for."""
        self.wipe()
        self._subject, self._tail = "", ()

    def count(self, tokens: int = 1) -> None:
        """Counts tokens that arrived and are not shown."""
        self._tokens += tokens

    @property
    def waited_s(self) -> float:
        return self._clock() - self._since

    def wipe(self) -> None:
        """Erases the line. Call it before anything is written."""
        if self._widths:
            self._output.erase_lines(self._count_rows())
            self._widths = []
        if self._has_suffix:
            self._output.erase_suffix()
            self._has_suffix = False
        self._quiet_since = self._clock()

    def tick(self) -> None:
        quiet_s = self._clock() - self._quiet_since
        if not self._subject:
            return
        if not self._output.at_line_start:
            if quiet_s >= STALL_S:
                self._draw_suffix(quiet_s)
            return
        if quiet_s < self._patience_s and not self._tail:
            return
        # One column less than the width: a full line makes some terminals scroll.
        line = fit_on_one_line(f"{self._take_spinner()} {self._subject}, {self._progress()}", self._columns() - 1)
        lines = [*self._tail, line]
        self._output.draw_lines(lines, self._count_rows())
        self._widths = [width_of(each) for each in lines]

    def _draw_suffix(self, quiet_s: float) -> None:
        column = self._show_held()
        text = f" {self._take_spinner()} {_seconds(quiet_s)}"
        if column is not None and len(text) < self._columns() - column:
            self._output.draw_suffix(text)
            self._has_suffix = True

    def _take_spinner(self) -> str:
        self._ticks += 1
        return _SPINNER_FRAMES[(self._ticks - 1) % len(_SPINNER_FRAMES)]

    def _count_rows(self) -> int:
        """The rows that what is drawn takes now: a window that has become narrower wraps it."""
        columns = max(1, self._columns())
        return sum(max(1, -(-width // columns)) for width in self._widths)

    def _progress(self) -> str:
        waited_s = self.waited_s
        time_text = _seconds(waited_s)
        if self._tokens and waited_s >= _MIN_RATE_S:
            return f"{time_text}, {self._tokens / waited_s:.0f} tokens/s"
        return time_text


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else format_duration(seconds)


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
