"""How replies look: a name for each thing that is shown, the codes it is drawn with, and where none may be.

A style is a string of SGR parameters, so `"1;35"` is bold magenta and `""` is plain. Only the colours that read on
light and on dark backgrounds alike are used: not yellow or white, not blue, nothing bright.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

import msgspec

Style = str
Run = tuple[str, Style]
Runs = tuple[Run, ...]
Reasoning = Literal["fold", "show", "hide"]

PLAIN, BOLD, DIM, ITALIC, UNDERLINE, STRIKE = "", "1", "2", "3", "4", "9"
TITLE = "1;4"
CODE = "36"
WRONG = "31"

# What a highlighter names, and how it is drawn.
SYNTAX: Mapping[str, Style] = {
    "keyword": "35",
    "string": "32",
    "comment": DIM,
    "number": "36",
    "constant": "36",
    "type": "36",
    "function": BOLD,
    "key": "35",
    "variable": "31",
}

# Narrower than this, wrapping makes no sense: the terminal's own wrap takes over.
MIN_COLUMNS = 16
_DEFAULT_COLUMNS = 80


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """`styled`: markdown is drawn with SGR codes; otherwise it is passed on as it was written. `live`: a line may be
    drawn and wiped again. Reasoning is told of in a line (`fold`), shown in full, or hidden."""

    styled: bool = False
    live: bool = False
    highlight: bool = True
    reasoning: Reasoning = "fold"


def look_for(out: TextIO, env: Mapping[str, str], *, highlight: bool = True, reasoning: Reasoning = "fold") -> Look:
    """What this stream can show."""
    terminal = out.isatty() and env.get("TERM", "") != "dumb"
    styled = terminal and not env.get("NO_COLOR")
    return Look(styled=styled, live=terminal, highlight=highlight, reasoning=reasoning)


def columns_of(out: TextIO) -> Callable[[], int]:
    """Asks each time, so that a resized window is noticed with the next line."""

    def columns() -> int:
        try:
            found = os.get_terminal_size(out.fileno()).columns
        except (OSError, ValueError, AttributeError):  # not a terminal, or closed
            found = 0
        return found or _DEFAULT_COLUMNS

    return columns


def joined(outer: Style, inner: Style) -> Style:
    return f"{outer};{inner}" if outer and inner else outer or inner


class Ink:
    """Collects what is to be written, with a code only where the style changes. Each line ends plain."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._style: Style = PLAIN

    def put(self, text: str, style: Style = PLAIN) -> None:
        if not text:
            return
        if style != self._style:
            self._parts.append(f"\x1b[0;{style}m" if style else "\x1b[0m")
            self._style = style
        self._parts.append(text)

    def newline(self) -> None:
        self.plain()
        self._parts.append("\n")

    def plain(self) -> None:
        if self._style:
            self._parts.append("\x1b[0m")
            self._style = PLAIN

    def take(self) -> str:
        text = "".join(self._parts)
        self._parts.clear()
        return text
