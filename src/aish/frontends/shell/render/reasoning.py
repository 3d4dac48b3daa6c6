"""Reasoning shown in full: plain words, dim, wrapped. Not read as markdown, so that nothing of it is held back."""

from __future__ import annotations

from collections.abc import Callable

from aish.frontends.shell.render.markdown.wrap import Wrap
from aish.frontends.shell.render.styles import DIM, PLAIN, Ink
from aish.frontends.terminal import visible


class ReasoningText:
    def __init__(self, write: Callable[[str], None], columns: Callable[[], int], *, styled: bool) -> None:
        self._write = write
        self._style = DIM if styled else PLAIN
        self._ink = Ink()
        self._wrap = Wrap(self._ink, columns)

    def feed(self, text: str) -> None:
        lines = visible(text).replace("\t", "    ").split("\n")
        for line in lines[:-1]:
            self._wrap.text(line, self._style)
            self._wrap.newline()
        self._wrap.text(lines[-1], self._style)
        self._flush()

    def close(self) -> None:
        self._wrap.finish()
        self._ink.plain()
        self._flush()

    def _flush(self) -> None:
        if text := self._ink.take():
            self._write(text)
