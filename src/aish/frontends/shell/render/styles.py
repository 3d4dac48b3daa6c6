"""Styles of terminal output, and which of them a stream can show.

A style is a string of SGR parameters: `"1;35"` is bold magenta, `""` is plain. Only colours that are readable on light
and on dark backgrounds are used: no yellow, white or blue, and nothing bright.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

import msgspec

from aish.frontends.terminal import Output

Style = str
Run = tuple[str, Style]
Runs = tuple[Run, ...]
Reasoning = Literal["fold", "show", "hide"]

PLAIN, BOLD, DIM, ITALIC, UNDERLINE, STRIKE = "", "1", "2", "3", "4", "9"
TITLE = "1;4"
CODE = "36"
WRONG = "31"

# The names that highlighters give to parts of code.
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

# On narrower terminals text is not wrapped further: the terminal's own wrapping takes over.
MIN_COLUMNS = 16
_DEFAULT_COLUMNS = 80


class DisplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How output is shown.

    `styled`: Markdown is drawn with SGR codes; otherwise it is passed through. `live`: a line may be drawn and erased
    again. Reasoning is summed up in a line (`fold`), shown in full, or hidden. `numbered`: blocks of code have numbers,
    by which they can be run or copied.
    """

    styled: bool = False
    live: bool = False
    highlight: bool = True
    reasoning: Reasoning = "fold"
    numbered: bool = False


def display_for(
    out: TextIO,
    env: Mapping[str, str],
    *,
    highlight: bool = True,
    reasoning: Reasoning = "fold",
    numbered: bool = False,
) -> DisplayOptions:
    """The options that this stream supports."""
    terminal = out.isatty() and env.get("TERM", "") != "dumb"
    return DisplayOptions(styled=terminal, live=terminal, highlight=highlight, reasoning=reasoning, numbered=numbered)


def make_output(env: Mapping[str, str]) -> Output:
    """Output to stdout and stderr, with what stderr supports. `NO_COLOR` takes the colours away, and nothing else."""
    display = display_for(sys.stderr, env)
    return Output(color=display.styled, live=display.live, monochrome=bool(env.get("NO_COLOR")))


def columns_of(out: TextIO) -> Callable[[], int]:
    """A function that reads the width of the terminal, so that a resized window is noticed with the next line."""

    def columns() -> int:
        try:
            found = os.get_terminal_size(out.fileno()).columns
        except (OSError, ValueError, AttributeError):  # not a terminal, or closed
            found = 0
        return found or _DEFAULT_COLUMNS

    return columns


def join_styles(outer: Style, inner: Style) -> Style:
    return f"{outer};{inner}" if outer and inner else outer or inner


class StyledBuffer:
    """Collects styled text, with an SGR code only where the style changes. Each line ends plain."""

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
