"""A sign of life while a person waits for the first word: what is waited for, and for how long already."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from aish.frontends.terminal import Output

# A wait shorter than this is not felt.
_PATIENCE_S = 0.4
_EVERY_S = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Waiting:
    """Shown from entering until `over` is called or the context is left. Nothing appears where nobody watches."""

    def __init__(self, output: Output, subject: str) -> None:
        self._output = output
        self._subject = subject
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._spin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()

    def over(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._output.end_progress()

    async def _spin(self) -> None:
        started_s = time.monotonic()
        await asyncio.sleep(_PATIENCE_S)
        while True:
            for frame in _FRAMES:
                waited_s = time.monotonic() - started_s
                self._output.progress(f"{frame} {self._subject}, {waited_s:.1f} s")
                await asyncio.sleep(_EVERY_S)
